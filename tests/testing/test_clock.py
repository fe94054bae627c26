"""The plugin's clock with workers. These tests use the plugin's own fixtures."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

import tarry
from tarry.testing import TestAsyncClient, TestAsyncClock, TestClient, TestClock

LIVES = [False, True]
"""In a sync test, and in an async one."""


class Life:
    """A worker that writes down what it does, and when."""

    def __init__(self, clock: TestClock, awaited: bool) -> None:
        self.clock, self.awaited = clock, awaited
        self.began = clock.now
        self.seen: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.seen.append(((self.clock.now - self.began) / timedelta(seconds=1), what))

    def where(self, topic: str) -> list[Any]:
        """What there is of a topic, by the clock's time: for a failure that has been seen once, and not been explained."""
        here = self.clock.client.topic(topic)
        return [
            self.clock.now,
            here.stats(),
            *(job for state in ("delayed", "ready", "reserved") for job in here.list(state)),
        ]

    def advance(self, duration: str) -> None:
        if self.awaited:
            asyncio.run(TestAsyncClock(self.clock).advance(duration))
        else:
            self.clock.advance(duration)


@pytest.fixture(params=LIVES, ids=["sync", "async"])
def life(tarry_clock: TestClock, request: pytest.FixtureRequest) -> Life:
    return Life(tarry_clock, request.param)


def test_each_job_runs_at_its_due_time(life: Life, tarry_client: TestClient) -> None:
    first, second = (
        tarry.Worker("shop", url="redis://nowhere.invalid"),
        tarry.Worker("shop", url="redis://nowhere.invalid"),
    )

    @first.task
    async def remind(name: str) -> None:
        life.note(name)
        if name == "early":
            bill.options(delay="2m").add(name)

    @second.task(topic="bills")
    def bill(name: str) -> None:
        life.note(f"bill {name}")

    life.clock.attach(first, second)
    remind.options(delay="10m").add("late")
    remind.options(delay="5m").add("early")
    bill.add("at once")
    remind.options(delay="31m").add("too late")
    life.advance("30m")
    assert life.seen == [(0, "bill at once"), (300, "early"), (420, "bill early"), (600, "late")]
    assert life.clock.now - life.began == timedelta(minutes=30)
    assert tarry_client.topic("shop").stats().delayed == 1


def test_a_retry_runs_after_its_back_off(life: Life) -> None:
    worker = tarry.Worker("shop")

    @worker.on("n", retry=tarry.BackOff("10s", factor=3, jitter=0))
    async def handle(job: Any) -> None:
        life.note(f"attempt {job.attempt}")
        if job.attempt < 3:
            raise ValueError

    life.clock.attach(worker)
    life.clock.client.topic("n").add("x", delay="1m")
    life.advance("1m30s")
    assert life.seen == [(60, "attempt 1"), (70, "attempt 2")]
    life.advance("10s")
    assert life.seen[2:] == [(100, "attempt 3")], life.where("n")


def test_the_job_of_a_dead_consumer_comes_again(life: Life) -> None:
    worker = tarry.Worker("shop")

    @worker.on("n")
    async def handle(job: Any) -> None:
        life.note(f"attempt {job.attempt}")

    life.clock.attach(worker)
    life.clock.client.topic("n").add("x")
    assert life.clock.client.topic("n").pop(ttr="1m") is not None  # and its process dies
    life.advance("5m")
    assert life.seen == [(60, "attempt 2")]


def test_a_paused_topic_resumes_on_time(life: Life) -> None:
    worker = tarry.Worker("shop")

    @worker.on("n")
    def handle(job: Any) -> None:
        life.note("done")

    life.clock.attach(worker)
    topic = life.clock.client.topic("n")
    topic.add("x", delay="1m")
    topic.pause("5m")
    life.advance("10m")
    assert life.seen == [(300, "done")]


def test_a_topic_with_a_rate_gets_its_jobs_at_their_time(life: Life) -> None:
    worker = tarry.Worker("shop")

    @worker.on("n")
    def handle(job: Any) -> None:
        life.note(job.body)

    life.clock.attach(worker)
    topic = life.clock.client.topic("n")
    topic.configure(rate="1/1m")
    topic.add_many(["a", "b", "c"])
    life.advance("2m")
    assert life.seen == [(60, "a"), (120, "b")]
    life.advance("1h")
    assert life.seen[2:] == [(180, "c")]


def test_the_clock_advances_without_an_attached_worker(tarry_clock: TestClock, tarry_client: TestClient) -> None:
    tarry_client.topic("n").add("x", delay="1m")
    tarry_clock.advance("59s 999ms")
    assert tarry_client.topic("n").pop() is None
    tarry_clock.advance("1ms")
    assert tarry_client.topic("n").pop() is not None


def test_a_sync_advance_in_an_async_test_is_refused(tarry_clock: TestClock) -> None:
    async def main() -> None:
        tarry_clock.advance("1m")  # nothing to run: only time passes
        tarry_clock.attach(worker)
        tarry_clock.advance("1m")

    worker = tarry.Worker("shop")
    worker.on("n")(id)
    with pytest.raises(tarry.BadInput, match="tarry_async_clock"):
        asyncio.run(main())


def test_a_closed_clock_restores_the_worker(tarry_url: str) -> None:
    worker = tarry.Worker("shop", url="redis://elsewhere.invalid", namespace="mine")
    clock = TestClock(tarry_url, "theirs")
    clock.attach(worker)
    assert worker.async_client.namespace == "theirs"
    clock.close()
    assert worker.async_client.namespace == "mine"


def test_an_async_client_uses_the_same_clock(
    tarry_async_client: TestAsyncClient, tarry_async_clock: TestAsyncClock, tarry_client: TestClient
) -> None:
    async def main() -> datetime:
        await tarry_async_client.topic("n").add("x", delay="1h")
        job = await tarry_async_client.topic("n").pop(wait="2h")
        assert job is not None
        return job.due

    assert asyncio.run(main()) == tarry_async_clock.now
    assert tarry_client.topic("n").stats().reserved == 1


def test_real_time_is_available(tarry_url: str) -> None:
    with tarry.Client(tarry_url, namespace="real") as client:
        client.topic("n").add("x")
        assert client.topic("n").pop() is not None
