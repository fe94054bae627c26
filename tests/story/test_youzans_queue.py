"""The weaknesses of Youzan's delay queue (job pool, delay bucket, timer, ready queue), none of which is here.

There, a job is moved from one place to the next by several commands, by timers that scan, and its id is all that a worker
shows. Here a verb is one script, time moves nothing, and a worker shows a receipt.
"""

from __future__ import annotations

from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest

from story.adapters import Adapter
from story.conftest import Snapshot
from story.test_add import US, now
from tarry import NewJob, StaleReceipt
from tarry.clients.testing import Clock
from tarry.core.requests import ScriptCall
from tarry.verbs.jobs import by_id, pop, settle
from tarry.verbs.jobs.options import DEFAULT_OPTIONS


async def test_every_verb_is_one_script_so_no_crash_splits_it(adapter: Adapter, topic: Any) -> None:
    """There: the job is put into the pool, then its id into a bucket. Here: every verb is one script."""
    verbs = topic.verbs
    job = await one(topic)
    calls = [
        verbs.add("tea", DEFAULT_OPTIONS, None),
        pop.pop_step(verbs.keys, 1, ttr=b"0", holder=b"me"),
        settle.FINISH.call(verbs.keys, settle.FINISH.encode([job])),
        verbs.by_id(by_id.DELETE, ["7"]),
        verbs.by_id(by_id.KICK, ["7"]),
        verbs.by_id(by_id.RESCHEDULE, ["7"], delay=5, at=None),
    ]
    assert all(isinstance(call, ScriptCall) for call in calls), "one call each, not a flow of several"


async def one(topic: Any, **options: Any) -> Any:
    await topic.add("tea", id="7", **options)
    return await topic.pop(ttr=30)


async def test_pop_reserves_atomically(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: taken from the ready queue, then its TTR put into a bucket; a worker that dies in between loses it."""
    await topic.add("tea", id="7")
    await adapter.run(
        pop.pop_step(topic.verbs.keys, 1, ttr=b"30000000", holder=b"dies here")
    )  # nobody reads the answer
    info = await topic.get("7")
    assert (info.state, info.reserved_until) == ("reserved", now(clock) + timedelta(seconds=30))
    clock.advance(30)
    assert (await topic.pop()).id == "7"


async def test_ready_jobs_are_first_in_first_out(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: LPUSH and LPOP."""
    for n in range(5):
        await topic.add(n)
        clock.advance(US)
    assert [(await topic.pop()).body for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_no_timer_moves_jobs(adapter: Adapter, topic: Any, clock: Clock, written: Snapshot) -> None:
    """There: a thread a bucket looks again and again. Here: the same bytes, a year later, mean something else."""
    await topic.add_many([NewJob(n, delay=f"{n}d") for n in range(300)])
    before = written()
    delayed = (await topic.stats()).delayed
    clock.advance("365d")
    assert (delayed, (await topic.stats()).ready) == (299, 300)
    assert written() == before


async def test_the_head_of_one_topic_does_not_delay_another(adapter: Adapter, clock: Clock) -> None:
    """There: topics share buckets, and a timer looks at the head only."""
    slow, quick = adapter.topic("slow"), adapter.topic("quick")
    await slow.add_many(range(50), delay=1)
    await quick.add("tea", delay=2)
    clock.advance(2)
    assert (await quick.pop()).lateness == timedelta(0)
    assert len(await slow.pop_many(100)) == 50


async def test_the_ttr_of_a_finished_job_does_not_fire(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: finish removes the job from the pool; its TTR stays in the bucket, and hits a new job with the same id."""
    await topic.finish(await one(topic))
    await topic.add("the next order 7", id="7", delay="1h")
    clock.advance(30)
    assert await topic.pop() is None
    assert (await topic.get("7")).due == now(clock) + timedelta(hours=1) - timedelta(seconds=30)


async def test_a_job_deleted_while_delayed_is_never_handed_out(
    adapter: Adapter, topic: Any, clock: Clock, written: Snapshot
) -> None:
    """There: the bucket keeps its id until the time has come, and looks into an empty pool."""
    await topic.add("tea", id="7", delay="30m")
    await topic.delete("7")
    assert not any(b":due" in key or b":jobs" in key for key in written()), "nothing of it is left"
    clock.advance("1h")
    assert await topic.pop() is None


async def test_a_job_deleted_while_ready_is_never_handed_out(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: its id is in the ready queue already, and a worker gets an id without a job."""
    await topic.add_many([NewJob(n, id=n) for n in "abc"])
    await topic.delete("b")
    assert [job.id for job in await topic.pop_many(9)] == ["a", "c"]


async def test_a_slow_worker_cannot_finish_a_job_of_another(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: finish takes an id. The slow worker's finish removes what the quick one is still working on."""
    slow = await one(topic)
    clock.advance(31)
    quick = await topic.pop()
    with pytest.raises(StaleReceipt, match="attempt 2"):
        await topic.finish(slow)
    assert (await topic.get("7")).state == "reserved"
    await topic.finish(quick)


async def test_finish_and_delete_are_different(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: both are HDEL. Here: a producer cancels without a receipt, and the worker learns of it."""
    job = await one(topic)
    assert await topic.delete("7") == "reserved"
    with pytest.raises(StaleReceipt, match="finished or deleted"):
        await topic.finish(job)
    stats = await topic.stats()
    assert (stats.deleted, stats.finished) == (1, 0)


async def test_an_id_belongs_to_one_job_at_a_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: the pool is overwritten, and the bucket holds the id once for each time: it is due twice."""
    await topic.add("first", id="7", delay=10)
    await topic.add("second", id="7", delay=20, if_exists="replace")
    clock.advance("1h")
    assert [job.body for job in await topic.pop_many(9)] == ["second"]


async def test_a_job_has_exactly_one_state_at_all_times(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: pool, bucket and ready queue hold it at the same time, or none of them does."""
    life = []
    for step in (
        lambda: topic.add("tea", id="7", delay=5, max_attempts=2),
        lambda: pass_time(clock, 5),
        lambda: topic.pop(ttr=10),
        lambda: pass_time(clock, 10),
        lambda: topic.pop(ttr=10),
        lambda: pass_time(clock, 10),
        topic.pop,
        lambda: topic.kick("7"),
    ):
        await step()
        life.append((await topic.get("7")).state)
        stats = await topic.stats()
        assert (stats.delayed + stats.ready + stats.reserved + stats.dead) == 1
        assert (await topic.check()).ok
    assert life == ["delayed", "ready", "reserved", "ready", "reserved", "ready", "dead", "ready"]


async def pass_time(clock: Clock, seconds: float) -> None:
    clock.advance(seconds)


async def test_a_job_whose_workers_always_die_becomes_dead(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: retryCount is a field that nobody reads."""
    await topic.add("poison", id="7")
    for _ in range(20):
        assert await topic.pop(ttr=1) is not None
        clock.advance(1)
    assert await topic.pop() is None
    assert (await topic.get("7")).reason == "attempts exhausted"


async def test_a_long_retry_delay_is_not_confused_with_a_ttr(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """There: TTR and delay lie in the same bucket, and which of them a due time was is not written."""
    job = await one(topic)
    await topic.release(job, delay="2h")
    clock.advance("1h")
    assert await topic.pop() is None
    assert (await topic.get("7")).state == "delayed"


def test_every_script_reads_the_servers_clock_first() -> None:
    """There: System.currentTimeMillis() of the producer. Here: clients send durations, and one clock is asked.

    Promise: One clock.
    """
    for script in files("tarry").joinpath("lua", "topic").iterdir():
        text = script.read_text(encoding="utf-8")
        includes = next(line for line in text.splitlines() if line.startswith("-- include"))
        assert includes.split()[2] in ("clock", "lease"), script.name  # a lease reads the clock first
        assert "unpack(KEYS)" in text.splitlines()[0] or "1, #KEYS, KEYS_PER_TOPIC" in text, "and declares every key"


def test_the_topic_name_of_youzans_example_is_valid(adapter: Adapter, topic: Any) -> None:
    assert topic.name == "测试"
