"""``run_until_idle``: it ends when nothing is due and nothing runs, by the real clock and by an imaginary one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from until import LONGEST_S

CLOCKS = ["real", "imaginary"]


class Place:
    """A worker, a client of its namespace, and the clock that both have."""

    def __init__(self, client: tarry.Client, clock: Clock | None) -> None:
        self.client, self.clock = client, clock
        self.worker = tarry.Worker("shop", client=client)
        self.seen: list[Any] = []

    def work(self) -> list[Any]:
        assert asyncio.run(self.worker.run_until_idle()) == 0
        return self.seen

    def left(self, topic: str = "shop") -> tuple[int, int, int]:
        """How many jobs are ready, delayed and reserved."""
        stats = self.client.topic(topic).stats()
        return stats.ready, stats.delayed, stats.reserved


@pytest.fixture(params=CLOCKS)
def place(request: pytest.FixtureRequest, valkey_url: str, namespace: str) -> Iterator[Place]:
    clock = Clock() if request.param == "imaginary" else None
    made = (
        TestClient(valkey_url, clock, namespace=namespace) if clock else tarry.Client(valkey_url, namespace=namespace)
    )
    with made as client:
        yield Place(client, clock)


@pytest.mark.parametrize("topic", [None, "others"], ids=["same topic", "other topic"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
def test_a_chain_is_worked_to_its_end(place: Place, is_async: bool, topic: str | None) -> None:
    worker, seen = place.worker, place.seen

    if is_async:

        @worker.task
        async def link(n: int) -> None:
            seen.append(n)
            if n:
                await other.add_async(n - 1)

        @worker.task(topic=topic, name="other")
        async def other(n: int) -> None:
            seen.append(n)
            if n:
                await link.add_async(n - 1)

    else:

        @worker.task
        def link(n: int) -> None:
            seen.append(n)
            if n:
                other.add(n - 1)

        @worker.task(topic=topic, name="other")
        def other(n: int) -> None:
            seen.append(n)
            if n:
                link.add(n - 1)

    job = link.add(5)
    assert place.work() == [5, 4, 3, 2, 1, 0]
    assert job.get() is None, "the handle works, and its job is done"
    assert place.left() == place.left("others") == (0, 0, 0)


def test_a_fan_out_over_topics_is_worked_to_its_end(place: Place) -> None:
    worker, seen = place.worker, place.seen
    topics = ["a", "b", "c"]

    def handler(topic: str) -> Any:
        async def handle(depth: int) -> None:
            seen.append(depth)
            if depth:
                for other in topics:
                    await worker.async_client.topic(other).add_many([depth - 1] * 3)

        return handle

    for topic in topics:
        worker.on(topic, concurrency=2)(handler(topic))
    place.client.topic("b").add(2)
    place.work()
    assert [seen.count(depth) for depth in range(3)] == [9**2, 9, 1]


@pytest.mark.parametrize("how", ["retry=", "Retry", "Snooze", "release"])
def test_a_job_that_is_due_again_at_once_runs_again(place: Place, how: str) -> None:
    seen = place.seen

    @place.worker.on("n", retry=0)
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.attempt)
        if len(seen) == 3:
            return
        if how == "release":
            await job.release(delay=0)
        else:
            raise {"retry=": ValueError("no"), "Retry": tarry.Retry(after=0), "Snooze": tarry.Snooze(0)}[how]

    place.client.topic("n").add(1)
    assert place.work() == ([1, 1, 1] if how == "Snooze" else [1, 2, 3])
    assert place.left("n") == (0, 0, 0)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
def test_a_job_is_not_left_waiting_for_a_handler_that_waits_for_it(place: Place, is_async: bool) -> None:
    worker, seen = place.worker, place.seen
    done = threading.Event()

    if is_async:

        @worker.on("first")
        async def first(body: int) -> None:
            await worker.async_client.topic("second").add(body)
            assert await asyncio.to_thread(done.wait, LONGEST_S)
            seen.append("first")

    else:

        @worker.on("first")
        def first(body: int) -> None:
            worker.client.topic("second").add(body)
            assert done.wait(LONGEST_S)
            seen.append("first")

    @worker.on("second")
    async def second(body: int) -> None:
        seen.append("second")
        done.set()

    place.client.topic("first").add(1)
    assert place.work() == ["second", "first"]


def test_jobs_of_a_topic_with_a_concurrency_come_one_after_the_other(place: Place) -> None:
    @place.worker.on("n")
    async def handle(body: int) -> None:
        place.seen.append(body)

    topic = place.client.topic("n")
    topic.configure(concurrency=1)
    topic.add_many(range(5))
    assert place.work() == [0, 1, 2, 3, 4]


def test_what_is_held_back_or_not_yet_due_stays(place: Place) -> None:
    for topic in ("rated", "paused", "later"):

        @place.worker.on(topic)
        async def handle(body: str) -> None:
            place.seen.append(body)

    place.client.topic("rated").configure(rate="1/1h")
    place.client.topic("rated").add_many(["first", "second"])
    place.client.topic("paused").add("paused")
    place.client.topic("paused").pause("1h")
    place.client.topic("later").add("later", delay="1h")
    assert place.work() == []
    assert [place.left(topic) for topic in ("rated", "paused", "later")] == [(2, 0, 0), (1, 0, 0), (0, 1, 0)]
    if place.clock is not None:
        place.clock.advance("1h")
        assert sorted(place.work()) == ["first", "later", "paused"], "due at this very moment"
        assert place.left("rated") == (1, 0, 0)


def test_a_job_that_becomes_due_while_another_one_runs_is_done(valkey_url: str, namespace: str) -> None:
    seen: list[str] = []
    worker, done = tarry.Worker("shop", url=valkey_url, namespace=namespace), asyncio.Event()

    @worker.on("first")
    async def first(body: int) -> None:
        await worker.async_client.topic("second").add(body, delay="20ms")
        await asyncio.wait_for(done.wait(), LONGEST_S)
        seen.append("first")

    @worker.on("second")
    async def second(body: int) -> None:
        seen.append("second")
        done.set()

    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("first").add(1)
        asyncio.run(worker.run_until_idle())
    assert seen == ["second", "first"]


def test_a_topic_and_a_queue_shared_with_java_feed_each_other(place: Place, name: str) -> None:
    worker, seen = place.worker, place.seen

    @worker.on("n")
    async def handle(body: int) -> None:
        seen.append(("topic", body))
        if body:
            await worker.async_client.delayed_queue(name, codec="string").offer(str(body - 1), 0)

    @worker.on_queue(name, codec="string")
    async def take(value: str) -> None:
        seen.append(("queue", int(value)))
        await worker.async_client.topic("n").add(int(value))

    place.client.topic("n").add(2)
    assert place.work() == [("topic", 2), ("queue", 1), ("topic", 1), ("queue", 0), ("topic", 0)]


def test_the_jobs_of_partitions_are_done(place: Place) -> None:
    @place.worker.on("n")
    async def handle(body: int) -> None:
        place.seen.append(body)
        if body:
            await place.worker.async_client.topic("n", partitions=4).add_many([body - 1] * 4)

    place.client.topic("n", partitions=4).add(3)
    place.work()
    assert [place.seen.count(n) for n in range(4)] == [64, 16, 4, 1]


def test_a_worker_with_a_slot_for_each_topic_ends(place: Place) -> None:
    worker = tarry.Worker("shop", client=place.client, concurrency=2)

    @worker.on("a")
    async def a(body: int) -> None:
        place.seen.append(body)
        await worker.async_client.topic("b").add(body)

    @worker.on("b")
    async def b(body: int) -> None:
        place.seen.append(-body)

    place.client.topic("a").add_many([1, 2, 3])
    asyncio.run(worker.run_until_idle())
    assert sorted(place.seen) == [-3, -2, -1, 1, 2, 3]


def test_a_handler_that_fails_to_the_last_ends(place: Place) -> None:
    @place.worker.on("n", retry=0, max_attempts=4)
    def handle(body: int) -> None:
        place.seen.append(body)
        raise ValueError("no")

    place.client.topic("n").add(1)
    assert place.work() == [1] * 4
    assert place.client.topic("n").stats().dead == 1
