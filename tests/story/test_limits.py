"""Limits of a topic: rates, bursts, both together; views of them, and invalid ones."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import combinations, pairwise
from typing import Any

import pytest
import redis

from story.adapters import Adapter
from story.drain import MINUTE, drain
from story.test_add import US, now
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.types import LimitStatus, Rate
from tarry.values.durations import SECOND, as_datetime


def never_above(moments: list[int], count: int, per: timedelta, burst: int) -> bool:
    """Between any two hand-outs, both counted, lie no more than the burst and what the rate lets through meanwhile."""
    span = per // US
    return all((j - i + 1 - burst) * span <= (b - a) * count for (i, a), (j, b) in combinations(enumerate(moments), 2))


async def test_a_rate_spreads_jobs_evenly(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="10/m")
    await topic.add_many(range(30))
    moments = await drain(topic, clock, 2 * MINUTE)
    assert {b - a for a, b in pairwise(moments)} == {6 * SECOND}
    assert len(moments) in (19, 20)


async def test_a_burst_is_handed_out_at_once_after_a_quiet_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate=(60, "1m"), burst=5)
    clock.advance("1h")
    await topic.add_many(range(30))
    assert len(await topic.pop_many(30)) == 5
    assert await topic.pop() is None
    clock.advance(1)
    assert len(await topic.pop_many(30)) == 1
    clock.advance("2.5s")
    assert len(await topic.pop_many(30)) == 2
    clock.advance("0.5s")
    assert len(await topic.pop_many(30)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "burst"), [("1/s", None), ("7/s", 3), ("1000/s", None), ("100/m", 1), ("999/37s", 10), ("3/1m", None)]
)
async def test_a_rate_is_never_exceeded_and_almost_reached(
    adapter: Adapter, topic: Any, clock: Clock, rate: str, burst: int | None
) -> None:
    """Consumers come with batches of any size, now and then a little late; there is always work."""
    settings = await topic.configure(rate=rate, burst=burst)
    rng = random.Random(rate)
    interval = settings.rate.per / settings.rate.count
    await topic.add_many(range(180))
    began, moments = clock.us, []
    while len(moments) < 120:
        jobs = await topic.pop_many(rng.choice([1, 2, 7, 40]), wait="10h")
        moments += [clock.us] * len(jobs)
        await topic.finish_many(jobs)
        if settings.burst > 1 and rng.random() < 0.2:
            clock.advance(interval / 3)  # what comes late is made up for, as far as the burst reaches
    assert never_above(moments, settings.rate.count, settings.rate.per, settings.burst)
    possible = (moments[-1] - began) * US / interval
    assert len(moments) >= 0.95 * possible


async def test_a_consumer_waiting_for_a_rate_does_not_poll(
    adapter: Adapter, topic: Any, namespace: str, valkey_url: str
) -> None:
    """No look in between: the moment is known."""
    await topic.configure(rate="1/500ms")
    await topic.add_many(range(3))
    with redis.Redis.from_url(valkey_url) as server, server.monitor() as seen:
        for _ in range(3):
            assert await topic.pop(wait="1m") is not None
        server.get(f"over-{namespace}")
        commands = iter(lambda: seen.next_command()["command"], f"GET over-{namespace}")
        looks = [command for command in commands if command.startswith("EVALSHA") and f"{namespace}/" in command]
    assert 3 <= len(looks) <= 6


async def test_changing_the_rate_never_lets_more_through(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(200))
    await topic.configure(rate="1/s", burst=1)
    clock.advance("1h")
    assert len(await topic.pop_many(9)) == 1
    await topic.configure(rate="2/s", burst=5)
    assert await topic.pop() is None
    clock.advance("0.5s")
    assert len(await topic.pop_many(9)) == 1
    await topic.configure(rate="2/s")  # what holds already changes nothing
    clock.advance("1h")
    assert len(await topic.pop_many(9)) == 5
    await topic.configure(rate=None)
    assert len(await topic.pop_many(9)) == 9


async def test_the_first_job_of_a_new_rate_waits_for_the_time_of_one_job(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    """Also in a topic that was never popped from: a change saves nothing up."""
    await topic.configure(rate="1/1m")
    began = clock.us
    await topic.add("a")
    assert await topic.pop() is None
    assert (await topic.stats()).limited == LimitStatus("rate", as_datetime(began + 60 * SECOND))
    assert await topic.pop(wait="2m") is not None
    assert clock.us == began + 60 * SECOND


async def test_a_changed_concurrency_limit_holds_at_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(10))
    assert len(await topic.pop_many(4)) == 4
    await topic.configure(concurrency=2)
    assert await topic.pop() is None
    await topic.configure(concurrency=6)
    assert len(await topic.pop_many(9)) == 2
    await topic.configure(concurrency=None)
    assert len(await topic.pop_many(9)) == 4


async def test_rate_and_concurrency_limits_hold_together(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="10/s", burst=10, concurrency=4)
    clock.advance(60)
    await topic.add_many(range(50))
    assert len(await topic.pop_many(50)) == 4
    assert (await topic.stats()).limited.reason == "concurrency"
    await topic.purge("reserved")
    assert len(await topic.pop_many(50)) == 4
    await topic.purge("reserved")
    assert len(await topic.pop_many(50)) == 2
    assert (await topic.stats()).limited == LimitStatus("rate", now(clock) + timedelta(milliseconds=100))


async def test_jobs_waiting_for_a_limit_keep_their_order_and_attempts(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(rate="1/s", concurrency=2)
    await topic.add_many([NewJob(n, id=str(n)) for n in range(6)])
    seen = []
    while (await topic.stats()).ready:
        if job := await topic.pop(wait=0.3):
            seen.append((job.body, job.attempt))
            await topic.finish(job)
    assert seen == [(n, 1) for n in range(6)]


async def test_stats_show_why_ready_jobs_wait(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/10s")
    assert (await topic.stats()).limited is None, "nothing waits"
    await topic.add_many(range(3))
    await topic.pop(wait="1m")
    assert (await topic.stats()).limited == LimitStatus("rate", now(clock) + timedelta(seconds=10))
    await topic.pause("1m")
    assert (await topic.stats()).limited == LimitStatus("pause", now(clock) + MINUTE)
    await topic.pause()
    assert (await topic.stats()).limited == LimitStatus("pause", None)
    await topic.resume()
    await topic.configure(rate=None, concurrency=1)
    held = (await topic.list("reserved")).jobs[0]
    assert (await topic.stats()).limited == LimitStatus("concurrency", held.reserved_until)
    await topic.configure(concurrency=None)
    assert (await topic.stats()).limited is None


async def test_waiting_for_a_limit_is_not_lateness(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/10s")
    await topic.add_many(range(4))
    await drain(topic, clock, timedelta(seconds=45))
    await topic.configure(rate=None, concurrency=1)
    await topic.add_many(range(3))
    while job := await topic.pop(wait="1h"):
        clock.advance(20)
        await topic.finish(job)
        if not (await topic.stats()).ready:
            break
    await topic.add("paused")
    await topic.pause()
    clock.advance("1h")
    await topic.resume()
    await topic.finish(await topic.pop())
    assert (await topic.stats()).lateness.max < timedelta(milliseconds=1)
    await topic.add("late")
    clock.advance(5)
    await topic.pop()
    assert (await topic.stats()).lateness.max > timedelta(seconds=5)


async def test_configure_returns_the_options_in_force(adapter: Adapter, topic: Any) -> None:
    usual = await topic.configure()
    assert (usual.rate, usual.burst, usual.concurrency, usual.max_lateness) == (None, None, None, None)
    own = await topic.configure(rate="100/1m", concurrency=7, max_lateness="1h")
    assert own.rate == Rate(100, MINUTE)
    assert str(own.rate) == "100/1m"
    assert (own.burst, own.concurrency, own.max_lateness) == (1, 7, timedelta(hours=1))
    assert (await topic.configure(rate=500)).burst == 50
    assert (await topic.configure(burst=3)).rate == Rate(500, timedelta(seconds=1))
    assert await topic.configure(rate=None, burst=None, concurrency=None, max_lateness=None) == usual


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"rate": 0}, "whole number from 1"),
        ({"rate": 1.5}, "100/1m"),
        ({"rate": "fast"}, "100/1m"),
        ({"rate": "5/never"}, "with a time of 1 ms or more"),
        ({"rate": "5/1us"}, "with a time of 1 ms or more"),
        ({"rate": "1/10000d"}, "year"),
        ({"rate": (True, 1)}, "100/1m"),
        ({"burst": 0}, "burst"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 2.0}, "concurrency"),
        ({"max_lateness": 0}, "too short"),
    ],
)
async def test_nonsensical_options_are_refused(adapter: Adapter, topic: Any, named: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        await topic.configure(**named)
    assert (await topic.configure()).rate is None


@pytest.mark.slow
def test_many_clients_share_one_rate_and_one_concurrency_limit(valkey_url: str, namespace: str) -> None:
    """Thirty, each with its own connection; one clock, and luck says whose turn it is."""
    clock, rng = Clock(), random.Random(8)
    crew = [TestClient(valkey_url, clock, namespace=namespace) for _ in range(30)]
    topics = [client.topic("t") for client in crew]
    topics[0].configure(rate="50/s", burst=4, concurrency=10)
    topics[0].add_many(range(200))
    moments, held = list[int](), list[tuple[Any, Any]]()
    while len(moments) < 200:
        topic = rng.choice(topics)
        if held and rng.random() < 0.6:
            where, job = held.pop(rng.randrange(len(held)))
            where.finish(job)
        jobs = topic.pop_many(rng.choice([1, 3, 20]))
        moments += [clock.us] * len(jobs)
        held += [(topic, job) for job in jobs]
        assert len(held) <= 10
        if not jobs:
            clock.advance("7ms")
    assert never_above(moments, 50, timedelta(seconds=1), 4)
    for client in crew:
        client.close()


# ── what nobody saw ──────────────────────────────────────────────────────────────────────────────────────────────────


async def give_back(adapter: Adapter, topic: Any, jobs: list[Any]) -> None:
    """As a wait in several partitions does with the jobs of all but the first that was served."""
    due = [round(job.due.timestamp() * SECOND) for job in jobs]
    await adapter.run(topic.verbs.give_back(jobs, due))


async def test_undelivered_jobs_return_their_share_of_the_rate(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/s", burst=3)
    clock.advance("1h")
    await topic.add_many(range(9))
    jobs = await topic.pop_many(9)
    assert len(jobs) == 3
    await give_back(adapter, topic, jobs[:2])
    assert [job.body for job in await topic.pop_many(9)] == [0, 1]
    assert await topic.pop() is None
    await topic.release(jobs[2], delay=0, counted=False)
    assert await topic.pop() is None, "that one was in somebody's hands"


async def test_a_replenished_share_of_the_rate_is_not_returned_twice(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(rate="1/s", burst=2)
    clock.advance("1h")
    await topic.add_many(range(9))
    first = await topic.pop_many(9, ttr="1h")
    clock.advance(2)
    assert len(await topic.pop_many(9)) == 2
    await give_back(adapter, topic, first)
    assert await topic.pop() is None
    last = await topic.pop(wait="1h")
    await topic.configure(rate="1/h", burst=1)
    await give_back(adapter, topic, [last])
    assert await topic.pop() is None, "nor across another rate"


async def test_a_rate_is_never_exceeded_when_jobs_are_given_back(adapter: Adapter, topic: Any, clock: Clock) -> None:
    settings = await topic.configure(rate="7/s", burst=3)
    rng, moments = random.Random(7), list[int]()
    await topic.add_many(range(200))
    while len(moments) < 150:
        jobs = await topic.pop_many(rng.choice([1, 2, 5]), wait="1h")
        handed, back = clock.us, [job for job in jobs if rng.random() < 0.5]
        if rng.random() < 0.3:
            clock.advance(f"{rng.choice([1, 50, 140, 400])}ms")
        await give_back(adapter, topic, back)
        kept = [job for job in jobs if job not in back]
        moments += [handed] * len(kept)
        await topic.finish_many(kept)
    assert never_above(moments, 7, settings.rate.per, 3)
