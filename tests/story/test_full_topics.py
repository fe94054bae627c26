"""Limits for producers: an add beyond them raises ``TopicFull``; what is no new job is never refused."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from story.adapters import Adapter
from tarry import BadInput, NewJob, TopicFull
from tarry.clients.replies import merge_calls
from tarry.clients.testing import Clock
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.views import count_bytes


async def test_an_add_beyond_the_limit_is_refused(adapter: Adapter, topic: Any, clock: Clock) -> None:
    settings = await topic.configure(max_pending=3)
    assert (settings.max_pending, settings.max_pending_bytes) == (3, None)
    for body in "ab":
        await topic.add(body)
    await topic.add("later", delay="1h")
    with pytest.raises(TopicFull, match=r"Topic .* is full.*Nothing was added") as refused:
        await topic.add("d")
    assert (refused.value.topic, refused.value.done) == (topic.name, 0)
    with pytest.raises(TopicFull):
        await topic.add("d", delay="2h", priority=3)
    job = await topic.pop()  # what is handed out waits no longer
    await topic.add("d", id="d")
    await topic.release(job, delay=0)  # and is never refused when it comes back
    stats = await topic.stats()
    assert (stats.delayed + stats.ready, stats.not_added, stats.pending_bytes) == (4, 2, None)
    with pytest.raises(TopicFull):
        await topic.add("e")
    assert (await topic.configure(max_pending=None)).max_pending is None
    await topic.add("e")


@pytest.mark.parametrize("place", ["delayed", "ready", "reserved"])
async def test_a_job_that_lives_is_never_refused(adapter: Adapter, topic: Any, clock: Clock, place: str) -> None:
    await topic.add("a", id="a", delay="1h" if place == "delayed" else 0)
    await topic.configure(max_pending=1)
    if place == "reserved":
        await topic.pop()
        await topic.add("other")
    for if_exists in ("keep", "update", "replace"):
        await topic.add("b", id="a", if_exists=if_exists)
        with pytest.raises(TopicFull):
            await topic.add("c", id="c", if_exists=if_exists)
    await topic.add("b", id="a", if_exists="replace", delay="1m", latest="1h")
    assert (await topic.stats()).replaced == 2


async def test_a_dead_job_that_comes_back_is_new_to_an_add_and_not_to_a_kick(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.add("a", id="a")
    await topic.bury(await topic.pop())
    await topic.add("b")
    await topic.configure(max_pending=1)
    for if_exists in ("replace", "update"):
        with pytest.raises(TopicFull):
            await topic.add("c", id="a", if_exists=if_exists)
    assert not (await topic.add("c", id="a", if_exists="keep")).is_new
    assert await topic.kick("a") == "dead"
    assert (await topic.stats()).ready == 2


async def test_each_script_of_add_many_is_all_or_nothing(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_pending=1500)
    with pytest.raises(TopicFull) as refused:
        await topic.add_many(range(2500))
    assert refused.value.done == 1000
    assert (await topic.stats()).ready == 1000
    with pytest.raises(TopicFull):
        await topic.add_many(range(501), atomic=True)
    assert (await topic.stats()).ready == 1000
    again = [NewJob("again", id=f"j{k // 2}") for k in range(998)]
    assert sum(one.is_new for one in await topic.add_many(again, if_exists="keep")) == 499  # each counts once
    await topic.add_many(["last"], atomic=True)
    with pytest.raises(TopicFull):
        await topic.add_many(["one more"])
    await topic.add_many(again, if_exists="replace")


@pytest.mark.parametrize("if_exists", ["replace", "update"])
async def test_a_job_that_is_changed_leaves_the_room_to_the_next_of_its_script(
    adapter: Adapter, topic: Any, clock: Clock, if_exists: Any
) -> None:
    await topic.add("a", id="a", delay="1h")
    await topic.configure(max_pending=2)
    options = JobOptions(delay="1h", if_exists=if_exists).encode()
    calls = [topic.verbs.add_with("b", options, id) for id in ("a", "a", "b", "c")]
    _, *answers = await adapter.run(merge_calls(calls))
    assert [answer == b"full" for answer in answers] == [False, False, False, True]
    assert (await topic.stats()).delayed == 2


async def test_a_repeated_add_many_is_not_refused_for_its_own_jobs(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Its answer was lost, and the place of a job that ended since is taken: the error would say that nothing was added."""
    await topic.configure(max_pending=2)
    call = next(topic.verbs.add_many_with(["a", "b"], JobOptions().encode(), atomic=False))
    await adapter.run(call)
    await topic.finish(await topic.pop())
    await topic.add("c")
    with pytest.raises(TopicFull):
        await topic.add_many(["d"])
    assert len(await adapter.run(call.as_replay())) == 2


async def test_bytes_are_those_of_the_bodies(adapter: Adapter, clock: Clock) -> None:
    topic = adapter.topic("bytes", type=bytes)
    await topic.add(b"x" * 10, headers={"k": "v"})  # before the limit: counted by the first adds after it
    await topic.configure(max_pending_bytes=100)
    clock.advance("2s")
    await topic.add(b"x" * 60, id="sixty", delay="1h", headers={"k": "v"}, ttr="1m")
    with pytest.raises(TopicFull):
        await topic.add(b"x" * 31)
    await topic.add(b"x" * 30)
    assert (await topic.stats()).pending_bytes == 100
    await topic.add(b"x" * 80, id="sixty", if_exists="replace", delay="1h")  # never refused, and counted
    assert (await topic.stats()).pending_bytes == 120
    job = await topic.pop()
    assert (await topic.stats()).pending_bytes == 110
    await topic.release(job)
    await topic.add(b"x", id="sixty", if_exists="update")
    assert (await topic.stats()).pending_bytes == 41
    await topic.delete("sixty")
    await topic.bury(await topic.pop())
    assert (await topic.stats()).pending_bytes == 10
    await topic.purge()
    assert (await topic.stats()).pending_bytes == 0


async def test_a_job_counts_again_when_its_reservation_is_over(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_pending_bytes=100)
    clock.advance("1s")
    await topic.add("tea", ttr="1m")
    await topic.pop()
    assert (await topic.stats()).pending_bytes == 0
    clock.advance("1m")
    await topic.add("later", delay="1h")
    assert (await topic.stats()).pending_bytes == 7
    job = await topic.pop()
    assert job.body == "tea"
    await topic.release(job, delay="1h")
    assert (await topic.stats()).pending_bytes == 12


async def test_check_counts_the_bytes_again_while_jobs_come_and_go(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_pending_bytes=1000)
    clock.advance("1s")
    await topic.add_many(["a" * k for k in range(10)], delay="1h")
    steps = count_bytes(topic.verbs.keys)
    request = next(steps)
    request.args = (b"1", b"3")
    assert await adapter.run(request) == 0  # three are counted
    jobs = (await topic.list(limit=100)).jobs
    await topic.delete_many([jobs[0].id, jobs[8].id])
    await topic.add("b" * 50, delay="30m")  # before the place
    await topic.add("c" * 60, delay="2h")
    await topic.reschedule(jobs[1].id, delay="3h")
    await topic.reschedule(jobs[9].id, delay="1m")
    known = (await topic.stats()).pending_bytes
    assert known == sum(len(job.body) + 2 for job in await topic.list(limit=100))
    assert (await topic.check()).ok
    request.args = (b"0", b"3")
    while (counted := await adapter.run(request)) == 0:
        pass
    assert counted == [known, known]


async def test_check_corrects_bytes_that_another_program_has_changed(
    adapter: Adapter, topic: Any, clock: Clock, valkey_url: str
) -> None:
    await topic.configure(max_pending_bytes=1000)
    clock.advance("1s")
    await topic.add("tea", id="tea")
    with redis.Redis.from_url(valkey_url) as server:
        server.hset(topic.verbs.keys.meta, "bytes", "not a number")
        assert (await topic.stats()).pending_bytes is None
        assert (await topic.check()).ok
        assert (await topic.stats()).pending_bytes == 5
        server.hset(topic.verbs.keys.meta, "bytes", 77)
        found = await topic.check()
        assert found.faults == ("the bytes of waiting jobs were 77, and are 5: corrected",)
        assert (await topic.check()).ok
        assert (await topic.stats()).pending_bytes == 5


async def test_partitions_take_a_part_of_the_limit_rounded_up(adapter: Adapter, clock: Clock) -> None:
    topic = adapter.topic("parted", partitions=3)
    settings = await topic.configure(max_pending=4, max_pending_bytes=1000)
    assert (settings.max_pending, settings.max_pending_bytes) == (4, 1000)
    added = 0
    for number in range(30):
        try:
            await topic.add("x", id=str(number))
            added += 1
        except TopicFull:
            pass
    stats = await topic.stats()
    assert (added, stats.ready, stats.not_added, stats.full) == (6, 6, 24, True)  # two in each
    with pytest.raises(TopicFull) as refused:
        await topic.add_many(["y"] * 9)
    assert refused.value.done == 0


async def test_refuses_limits_that_are_none(adapter: Adapter, topic: Any) -> None:
    for name in ("max_pending", "max_pending_bytes"):
        for value in (0, -1, 1.5, True, "3", 10**15 + 1):
            with pytest.raises(BadInput, match=name):
                await topic.configure(**{name: value})
