"""All reservations of one process: when it is dead, or cannot renew them itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BadInput, NewJob, StaleReceipt
from tarry.clients.testing import Clock


async def popped(topic: Any, holder: str, n: int, **options: Any) -> list[Any]:
    topic.verbs.holder = holder.encode()
    jobs: list[Any] = await topic.pop_many(n, **options)
    return jobs


async def test_release_holder_makes_jobs_ready_uncounted_and_in_order(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.add_many([NewJob(n, id=str(n)) for n in range(6)])
    dead = await popped(topic, "dead", 3)
    other = await popped(topic, "alive", 2)
    clock.advance(1)
    assert await topic.release_holder("dead", counted=False) == 3
    assert [job.id for job in await topic.list("reserved")] == [job.id for job in other]
    assert [job.attempts for job in await topic.list("ready")] == [0] * 4
    again = await popped(topic, "heir", 6)
    assert [(job.id, job.attempt) for job in again] == [("5", 1), ("0", 1), ("1", 1), ("2", 1)]
    with pytest.raises(StaleReceipt):
        await topic.finish(dead[0])
    assert await topic.release_holder("dead") == 0


async def test_a_job_that_kills_its_workers_becomes_dead(adapter: Adapter, topic: Any) -> None:
    await topic.add("poison", id="7", max_attempts=2)
    for n in (1, 2):
        [job] = await popped(topic, f"victim {n}", 1)
        assert job.attempt == n
        assert await topic.release_holder(f"victim {n}") == 1
    info = await topic.get("7")
    assert (info.state, info.reason, info.error) == ("dead", "attempts exhausted", "its worker died")
    assert (await topic.stats()).died == 1


async def test_many_jobs_of_a_holder_are_released_in_steps(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(1700))
    await popped(topic, "dead", 1000)
    await popped(topic, "alive", 300)
    assert await topic.release_holder("dead") == 1000
    stats = await topic.stats()
    assert (stats.ready, stats.reserved) == (1400, 300)


async def test_release_holder_respects_its_limit(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(900))
    await popped(topic, "dead", 600)
    await popped(topic, "alive", 300)
    for limit, left in ((1, 599), (550, 49), (100, 0)):
        assert await topic.release_holder("dead", limit=limit) == min(limit, 49 if limit == 100 else limit)
        assert (await topic.stats()).reserved == left + 300
    with pytest.raises(BadInput, match="limit"):
        await topic.release_holder("dead", limit=0)


async def test_touch_holder_renews_only_the_jobs_of_that_holder(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob(n, id=str(n), ttr=ttr) for n, ttr in enumerate([10, 100])])
    mine = await popped(topic, "mute", 2)
    await topic.add("other", id="other")
    await popped(topic, "other", 1, ttr=10)
    clock.advance(9)
    assert await topic.touch_holder("mute", ttr=15) == 1, "the other job has more time than that"
    clock.advance(2)
    states = {id: (await topic.get(id)).state for id in ("0", "1", "other")}
    assert states == {"0": "reserved", "1": "reserved", "other": "ready"}
    assert await topic.touch_holder("other", ttr=15) == 0, "what ran out stays so"
    await topic.finish_many(mine)
    assert (await topic.stats()).lateness.max < timedelta(seconds=1)


@pytest.mark.parametrize("holder", ["", "x" * 256, 7])
async def test_an_invalid_holder_is_refused(adapter: Adapter, topic: Any, holder: Any) -> None:
    with pytest.raises(BadInput, match="holder"):
        await topic.release_holder(holder)
    with pytest.raises(BadInput, match="holder"):
        await topic.touch_holder(holder, ttr=5)


@pytest.mark.slow
async def test_very_many_jobs_are_settled_in_steps(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Lua unpacks some 8,000 values at most."""
    jobs: list[Any] = []
    await topic.add_many(range(9000))
    while len(jobs) < 9000:
        jobs += await topic.pop_many(1000)
    await topic.touch_many(jobs, ttr=100)
    await topic.delete_many([jobs[0].id, jobs[-1].id])
    with pytest.raises(StaleReceipt) as told:
        await topic.finish_many(jobs)
    assert told.value.reasons == {jobs[0].id: "gone", jobs[-1].id: "gone"}
    assert (await topic.stats()).finished == 8998
