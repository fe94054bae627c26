"""Jobs that failed: back-off, attempts, death."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import US, now
from tarry.clients.testing import Clock
from tarry.values.durations import HOUR, SECOND
from tarry.verbs.jobs.job_values import Reservation


async def test_the_default_back_off_doubles_up_to_an_hour(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", max_attempts=None)
    for n in range(16):
        job = await topic.pop()
        assert job.attempt == n + 1
        await topic.release(job)
        waits = ((await topic.get("7")).due - now(clock)) // US
        usual = min(SECOND << n, HOUR)
        assert 0.8 * usual <= waits <= min(1.2 * usual, HOUR)
        clock.advance("1h")


async def test_who_has_only_a_receipt_backs_off_alike(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for id, attempts in (("1", 1), ("5", 5), ("14", 14)):
        await topic.add("tea", id=id, max_attempts=None)
        for _ in range(attempts - 1):
            await topic.release(await topic.pop(), delay=0)
        job = await topic.pop()
        assert (job.id, job.attempt) == (id, attempts)
        await topic.release(Reservation(id, job.receipt))
        waits, usual = ((await topic.get(id)).due - now(clock)) // US, min(SECOND << (attempts - 1), HOUR)
        assert 0.8 * usual <= waits <= min(1.2 * usual, HOUR)


async def test_many_back_off_each_by_its_attempt(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("old", id="old")
    for _ in range(6):
        await topic.release(await topic.pop(), delay=0)
    await topic.add("new", id="new")
    await topic.release_many(await topic.pop_many(2))
    waits = {id: ((await topic.get(id)).due - now(clock)) / timedelta(seconds=1) for id in ("old", "new")}
    assert 0.8 <= waits["new"] <= 1.2
    assert 0.8 * 64 <= waits["old"] <= 1.2 * 64


async def test_release_with_a_delay_waits_exactly_that_long(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    await topic.release(job, delay="90s")
    info = await topic.get("7")
    assert (info.state, info.due, info.attempts) == ("delayed", now(clock) + timedelta(seconds=90), 1)


async def test_an_uncounted_release_takes_the_attempt_back(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", max_attempts=1)
    for _ in range(5):
        job = await topic.pop()
        assert job.attempt == 1
        await topic.release(job, counted=False)
    assert (await topic.stats()).dead == 0


async def test_released_jobs_keep_their_order(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(list("abcd"))
    jobs = await topic.pop_many(4)
    await topic.release_many(jobs, delay=5)
    clock.advance(10)
    assert "".join([job.body for job in await topic.pop_many(4)]) == "abcd"


async def test_a_job_without_attempts_left_is_dead_with_a_reason(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", max_attempts=3)
    for _ in range(3):
        assert (await topic.get("7")).state == "ready"
        await topic.release(await topic.pop(), delay=0)
        clock.advance(US)
    info = await topic.get("7")
    assert (info.state, info.attempts, info.reason, info.died) == ("dead", 3, "attempts exhausted", now(clock) - US)
    assert info.failure == "attempts exhausted", "nobody said more"
    assert await topic.pop() is None


async def test_expired_reservations_use_up_attempts_too(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Promise: Attempts."""
    await topic.add("tea", id="7", max_attempts=2)
    for attempt in (1, 2):
        assert (await topic.pop(ttr=10)).attempt == attempt
        clock.advance(10)
    assert await topic.pop() is None
    info = await topic.get("7")
    assert (info.state, info.reason, info.error) == ("dead", "attempts exhausted", "timed out")
    assert info.failure == "timed out"
    assert info.first_failure is not None


async def test_a_buried_job_keeps_its_first_failure(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    await topic.release(await topic.pop(), delay=0, reason="no water")
    first = now(clock)
    clock.advance("1h")
    await topic.bury(await topic.pop(), reason="no tea")
    info = await topic.get("7")
    assert (info.first_failure, info.died) == (first, now(clock))
    assert [attempt.error for attempt in info.failed_attempts] == ["no tea", "no water"]


async def test_the_default_is_twenty_attempts(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    attempts = 0
    while job := await topic.pop():
        attempts = job.attempt
        await topic.release(job, delay=0)
        clock.advance(US)
    assert (attempts, (await topic.get("7")).state) == (20, "dead")


@pytest.mark.parametrize("where", ["job", "topic"])
async def test_max_attempts_none_is_unlimited(adapter: Adapter, topic: Any, clock: Clock, where: str) -> None:
    if where == "topic":
        assert (await topic.configure(max_attempts=None)).max_attempts is None
    await topic.add("tea", **({"max_attempts": None} if where == "job" else {}))
    for n in range(50):
        job = await topic.pop()
        assert job.attempt == n + 1
        await topic.release(job, delay=0)
        clock.advance(US)


async def test_a_buried_job_is_dead_with_its_reason_in_one_line(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    await topic.bury(await topic.pop(), reason="no such\n order\t 测试")
    info = await topic.get("7")
    assert (info.state, info.reason, info.attempts, info.body) == ("dead", "no such order 测试", 1, "tea")
    assert (info.died, info.due, info.reserved_until) == (now(clock), None, None)
    clock.advance("1d")
    assert await topic.pop() is None


async def test_of_a_reason_of_any_length_8192_bytes_are_kept(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(["buried", "released"])
    for job in await topic.pop_many(2):
        await adapter.of(job, "bury" if job.body == "buried" else "release", reason="x" * 20_000)
    assert [len(job.reason) for job in [*await topic.list("dead"), *await topic.list("delayed")]] == [8192, 8192]


async def test_the_reason_of_a_release_is_shown(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    await adapter.of(await topic.pop(), "release", delay="5m", reason="no water")
    info = await topic.get("7")
    assert (info.reason, info.state) == ("no water", "delayed")
