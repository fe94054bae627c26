"""Jobs with a priority: of those that are due, the highest comes first. What is not due yet waits, whatever its priority is."""

from __future__ import annotations

from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock


async def ids_of(topic: Any, n: int = 100) -> list[str]:
    return [job.id for job in await topic.pop_many(n)]


async def test_the_highest_priority_of_those_that_are_due_comes_first(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    for id, priority in [("a0", 0), ("b1", 1), ("c3", 3), ("d2", 2), ("e3", 3), ("f0", 0)]:
        await topic.add(id, id=id, priority=priority)
        clock.advance("1ms")
    await topic.add("later", id="later", priority=3, delay="1s")
    assert (await topic.pop()).id == "c3"
    assert await ids_of(topic, 3) == ["e3", "d2", "b1"]
    assert await ids_of(topic) == ["a0", "f0"]
    clock.advance("1s")
    assert await ids_of(topic) == ["later"]


async def test_a_priority_is_shown_by_a_popped_job_and_in_views(adapter: Adapter, topic: Any) -> None:
    await topic.add(b"raw", id="a", priority=2, headers={"k": "v"}, max_lateness="1h", ttr=5, max_attempts=3)
    await topic.add({"n": 1}, id="b")
    shown = await topic.get("a")
    assert (shown.priority, shown.body, shown.headers) == (2, b"raw", {"k": "v"})
    assert (shown.ttr.total_seconds(), shown.max_attempts) == (5, 3)
    assert [job.priority for job in await topic.list()] == [2, 0]
    jobs = await topic.pop_many(2)
    assert [(job.id, job.priority, job.body) for job in jobs] == [("a", 2, b"raw"), ("b", 0, {"n": 1})]
    assert jobs[0].headers == {"k": "v"}
    assert (await topic.get("a")).priority == 2


async def test_the_priority_of_a_job_of_many_wins_over_that_of_the_call(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(["plain", NewJob("own", priority=3), NewJob("none", priority=0)], priority=1)
    assert [(job.body, job.priority) for job in await topic.pop_many(3)] == [("own", 3), ("plain", 1), ("none", 0)]


async def test_a_job_keeps_its_priority_wherever_it_is_put_back(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("low", id="low")
    await topic.add("high", id="high", priority=3)

    async def comes_first() -> Any:
        clock.advance("1ms")
        job = await topic.pop(ttr="10s")
        assert job.id == "high"
        return job

    await topic.release(await comes_first(), delay=0)
    await topic.release(await comes_first(), delay="1s", counted=False)
    assert (await topic.pop()).id == "low"
    await topic.release_holder((await topic.get("low")).holder)
    clock.advance("1s")
    await comes_first()
    clock.advance("10s")  # its TTR is over
    await comes_first()
    assert await topic.release_holder((await topic.get("high")).holder) == 1
    await topic.bury(await comes_first(), reason="no")
    assert await topic.kick("high") == "dead"
    await topic.reschedule("high", delay="1m")
    assert (await topic.pop()).id == "low"
    await topic.release_holder((await topic.get("low")).holder)
    await topic.reschedule("high", delay="1s")
    clock.advance("1s")
    await topic.finish(await comes_first())
    assert await ids_of(topic) == ["low"]
    assert (await topic.check()).ok


async def test_an_earlier_moment_does_not_win_over_a_priority(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Not even an hour of it: a topic that is always busy with urgent jobs never comes to the others."""
    await topic.add("old", id="old")
    clock.advance("1h")
    await topic.add_many([NewJob(n, id=f"{n}") for n in range(3)], priority=1)
    assert await ids_of(topic, 3) == ["0", "1", "2"]
    assert await ids_of(topic) == ["old"]


async def test_a_replaced_job_has_the_priority_of_the_new_one(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("x", id="x", priority=3, delay="1s")
    await topic.add("y", id="y", priority=1, delay="1s")
    await topic.add("x", id="x", if_exists="replace", delay="1s")
    await topic.add("z", id="z", delay="1s")
    await topic.add("z", id="z", if_exists="keep", priority=3)
    clock.advance("2s")
    assert await ids_of(topic) == ["y", "x", "z"]


async def test_of_one_id_added_twice_in_a_call_the_last_priority_holds(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    at = clock.now
    await topic.add_many(
        [NewJob(1, id="a", priority=3), NewJob(2, id="b", priority=1), NewJob(3, id="a")], at=at, if_exists="replace"
    )
    assert [(job.id, job.body) for job in await topic.pop_many(3)] == [("b", 2), ("a", 3)]


@pytest.mark.slow
async def test_thousands_due_at_once_come_by_priority_and_then_by_due_time(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    n = 3_000
    await topic.add_many([NewJob(k, id=f"{k:05}", priority=k % 4) for k in range(n)], delay="1m")
    clock.advance("2m")
    popped: list[int] = []
    while jobs := await topic.pop_many(1000):
        popped += [job.body for job in jobs]
        await topic.finish_many(jobs)
    assert popped == sorted(range(n), key=lambda k: (-(k % 4), k % 1000, k)), "in each script of `add_many` a µs apart"
    assert (await topic.check()).ok


@pytest.mark.parametrize("wrong", [4, -1, True, "high", 1.0, None])
async def test_a_wrong_priority_is_refused(adapter: Adapter, topic: Any, wrong: Any) -> None:
    with pytest.raises(BadInput, match="priority"):
        await topic.add("tea", priority=wrong)
    if wrong is not None:
        with pytest.raises(BadInput, match=r"job 1: priority"):
            await topic.add_many(["tea", NewJob("tea", priority=wrong)])
    assert (await topic.stats()).ready == 0
