"""Popping jobs that are due."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story import adapters
from story.adapters import Adapter
from story.test_add import US, now
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock


async def test_a_job_is_due_to_the_microsecond(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Promise: Never early; Microseconds; Early."""
    await topic.add("tea", delay=10)
    clock.advance(timedelta(seconds=10) - US)
    assert await topic.pop() is None
    clock.advance(US)
    job = await topic.pop()
    assert (job.body, job.lateness) == ("tea", timedelta(0))


async def test_lateness_is_the_pop_time_minus_the_due_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    added = await topic.add("tea", delay=10)
    clock.advance("1h")
    job = await topic.pop()
    assert job.lateness == timedelta(minutes=59, seconds=50)
    assert (job.due, job.attempt, job.topic, job.id) == (added.due, 1, "测试", added.id)


async def test_jobs_are_handed_out_by_due_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for delay in (30, 10, 20, 0):
        await topic.add(delay, delay=delay)
    clock.advance(60)
    assert [(await topic.pop()).body for _ in range(4)] == [0, 10, 20, 30]


async def test_the_order_is_first_in_first_out(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Promise: Microseconds."""
    for n in range(30):
        await topic.add(n, delay=5)
        clock.advance(US)
    clock.advance(60)
    assert [job.body for job in await topic.pop_many(10)] == list(range(10))
    assert [(await topic.pop()).body for _ in range(20)] == list(range(10, 30))


async def test_a_batch_keeps_its_order(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(1000), delay=5)
    clock.advance(60)
    assert [job.body for _ in range(4) for job in await topic.pop_many(250)] == list(range(1000))


async def test_a_batch_without_delay_is_ready_at_once_in_order(adapter: Adapter, topic: Any) -> None:
    """Promise: Microseconds."""
    added = await topic.add_many(list("abcdefgh"))
    assert {one.state for one in added} == {"ready"}
    assert [job.body for job in await topic.pop_many(100)] == list("abcdefgh")


async def test_later_batches_follow_earlier_ones(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(list("abc"), delay=1)
    clock.advance("1ms")
    await topic.add_many(list("def"), delay=1)
    clock.advance(2)
    assert "".join([job.body for job in await topic.pop_many(6)]) == "abcdef"


async def test_an_empty_topic_hands_out_nothing(adapter: Adapter, topic: Any) -> None:
    assert await topic.pop() is None
    assert await topic.pop_many(10) == []


async def test_one_job_goes_to_one_consumer(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea")
    assert await topic.pop() is not None
    assert await topic.pop() is None


# ── time to run ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reservation_lasts_its_ttr_to_the_microsecond(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Promise: At least once; Again."""
    await topic.add("tea", id="7")
    first = await topic.pop(ttr=30)
    clock.advance(timedelta(seconds=30) - US)
    assert await topic.pop() is None
    assert (await topic.get("7")).state == "reserved"
    clock.advance(US)
    assert (await topic.get("7")).state == "ready"
    again = await topic.pop()
    assert (again.id, again.attempt) == ("7", 2)
    assert again.receipt > first.receipt


async def test_an_expired_job_is_due_at_its_expiry(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("lost", id="7")
    await topic.pop(ttr=30)
    until = (await topic.get("7")).reserved_until
    assert until == now(clock) + timedelta(seconds=30)
    clock.advance(40)
    await topic.add("newer")
    again = await topic.pop()
    assert (again.body, again.due, again.lateness) == ("lost", until, timedelta(seconds=10))


async def test_the_default_ttr_is_sixty_seconds(adapter: Adapter, topic: Any) -> None:
    await topic.add("plain")
    assert (await topic.pop()).ttr == timedelta(seconds=60)


async def test_the_ttr_of_the_job_beats_that_of_the_consumer_and_of_the_topic(adapter: Adapter, topic: Any) -> None:
    assert (await topic.configure(ttr="5m")).ttr == timedelta(minutes=5)
    await topic.add_many([NewJob("own", ttr=7), "consumer", "topic"])
    own, consumer = await topic.pop_many(2, ttr=11)
    assert [job.ttr.total_seconds() for job in (own, consumer, await topic.pop())] == [7, 11, 300]
    assert (await topic.configure(ttr=None)).ttr == timedelta(seconds=60)


async def test_each_reservation_of_a_batch_expires_by_itself(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob("short", ttr=5), NewJob("long", ttr=50)])
    assert len({job.receipt for job in await topic.pop_many(2)}) == 1, "one receipt a batch"
    clock.advance(20)
    assert [job.body for job in await topic.pop_many(2)] == ["short"]


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pop_many_returns_at_most_the_requested_number(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(1000))
    assert [len(await topic.pop_many(n)) for n in (1, 7, 500, 1000, 1)] == [1, 7, 500, 492, 0]


async def test_pop_many_returns_at_most_four_megabytes(adapter: Adapter, topic: Any) -> None:
    for _ in range(3):
        await topic.add_many([b"x" * 900_000] * 3)
    sizes = []
    while jobs := await topic.pop_many(100):
        sizes.append(len(jobs))
    assert sum(sizes) == 9
    assert max(sizes) <= 4


async def test_pop_many_returns_at_least_one_job_of_any_size(
    valkey_url: str, adapter: Adapter, clock: Clock, namespace: str
) -> None:
    roomy = adapters.imaginary("sync", valkey_url, clock, namespace, max_body=6_000_000)
    try:
        assert isinstance(roomy, adapters.BlockingAdapter)
        topic = roomy.client.topic("large")
        topic.add_many([b"x" * 5_000_000, b"small"])
        assert [len(topic.pop_many(10)), len(topic.pop_many(10))] == [1, 1]
    finally:
        roomy.close()


# ── several topics ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pop_takes_from_the_first_nonempty_topic_argument(adapter: Adapter) -> None:
    a, b = adapter.topic("a"), adapter.topic("b")
    await b.add("b1")
    assert (await adapter.pop("a", "b")).body == "b1"
    await b.add("b2")
    await a.add("a1")
    first = await adapter.pop("a", "b")
    assert (first.topic, first.body) == ("a", "a1")
    assert (await adapter.pop("a", "b")).body == "b2"
    assert await adapter.pop("a", "b") is None


@pytest.mark.parametrize("partitions", [None, 3])
async def test_many_jobs_of_several_topics_are_those_of_the_first_that_has_any(
    adapter: Adapter, clock: Clock, partitions: int | None
) -> None:
    a, b = adapter.topic("a", partitions=partitions), adapter.topic("b")
    assert await adapter.pop_many("a", "b", limit=5) == []
    await b.add_many(["b1", "b2", "b3"])
    assert [job.body for job in await adapter.pop_many("a", "b", limit=2)] == ["b1", "b2"]
    await a.add_many(["a1", "a2"])
    jobs = await adapter.pop_many("a", "b", limit=1000, ttr=10)
    assert {(job.topic, job.body) for job in jobs} == {("a", "a1"), ("a", "a2")}
    assert (await a.get(jobs[0].id)).reserved_until == now(clock) + timedelta(seconds=10)
    assert [job.body for job in await adapter.pop_many("a", "b", limit=2)] == ["b3"]
    await b.add("b4", delay=10)
    assert await adapter.pop_many("a", "b", limit=2, wait=5) == []
    assert [job.body for job in await adapter.pop_many("b", limit=2, wait=10)] == ["b4"]


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "2"])
async def test_many_jobs_of_several_topics_are_1_to_1000(adapter: Adapter, limit: Any) -> None:
    with pytest.raises(BadInput, match=r"^limit: .*; it is a whole number from 1 to 1000"):
        await adapter.pop_many("a", limit=limit)


async def test_many_jobs_of_several_topics_need_a_limit_and_a_topic(adapter: Adapter) -> None:
    with pytest.raises(TypeError, match="limit"):
        await adapter.pop_many("a")
    with pytest.raises(BadInput, match=r"^pop_many: name a topic at least"):
        await adapter.pop_many(limit=1)


async def test_a_job_popped_from_several_topics_settles_in_its_own(adapter: Adapter) -> None:
    a, b = adapter.topic("a"), adapter.topic("b")
    await b.add("tea", id="7")
    async with adapter.inside(await adapter.pop("a", "b")):
        pass
    assert await b.get("7") is None
    assert (await a.stats()).refused == 0


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_waiting_advances_imaginary_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", delay="30m")
    began = now(clock)
    assert await topic.pop(wait="29m") is None
    assert now(clock) - began == timedelta(minutes=29)
    job = await topic.pop(wait="2m")
    assert (job.body, job.lateness) == ("tea", timedelta(0))
    assert now(clock) - began == timedelta(minutes=30)


@pytest.mark.parametrize("n", [1, 3])
async def test_pop_many_waits_until_one_job_is_ready(adapter: Adapter, topic: Any, clock: Clock, n: int) -> None:
    await topic.add_many([NewJob(k, delay=10 * k) for k in range(1, 4)])
    jobs = await topic.pop_many(n, wait=60)
    assert [job.body for job in jobs] == [1]


async def test_waiting_on_several_topics_takes_the_earliest_job(adapter: Adapter, clock: Clock) -> None:
    a, b = adapter.topic("a"), adapter.topic("b")
    await a.add("a", delay=20)
    await b.add("b", delay=10)
    assert (await adapter.pop("a", "b", wait=60)).body == "b"
    assert (await adapter.pop("a", "b", wait=60)).body == "a"
    assert await adapter.pop("a", "b", wait=5) is None


async def test_waiting_finds_an_expired_reservation(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea")
    await topic.pop(ttr=30)
    again = await topic.pop(wait=60)
    assert (again.attempt, again.lateness) == (2, timedelta(0))


@pytest.mark.parametrize("name", range(12))
def test_a_job_due_just_after_a_recheck_is_not_late(valkey_url: str, clock: Clock, namespace: str, name: int) -> None:
    """Look-arounds last ten seconds and up to a twentieth more, by the waiter's name.

    Promise: On time.
    """
    here = adapters.imaginary("sync", valkey_url, clock, namespace)
    here.client.engine._sole_waiter._watch._name = b"w%d" % name
    topic = here.client.topic("t")
    topic.add("tea", delay="10.2s")
    assert topic.pop(wait=20).lateness == timedelta(0)
    here.close()
