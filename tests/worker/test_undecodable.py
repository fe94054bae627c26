"""Bodies that a worker cannot decode: during a deployment the next worker can; others are dead in the end. Imaginary
time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient


class Order(msgspec.Struct):
    number: int


class NewerOrder(msgspec.Struct):
    number: int | str


class World:
    """A server, its time, and workers of two versions."""

    def __init__(self, url: str, namespace: str) -> None:
        self.clock = Clock()
        self.client = TestClient(url, self.clock, namespace=namespace)
        self.url = url
        self._place = url, namespace
        self.seen: list[Any] = []

    def worker(self) -> tarry.Worker:
        url, namespace = self._place
        return tarry.Worker("shop", client=TestAsyncClient(url, self.clock, namespace=namespace))

    def run(self, worker: tarry.Worker) -> None:
        assert asyncio.run(worker.run_until_idle()) == 0

    def only_job(self, topic: str) -> tarry.JobInfo[Any]:
        [job] = self.client.topic(topic).list()
        return job


@pytest.fixture
def world(valkey_url: str, namespace: str) -> Iterator[World]:
    made = World(valkey_url, namespace)
    yield made
    made.client.close()


def with_handler(world: World, *, newer: bool, **options: Any) -> tarry.Worker:
    worker = world.worker()

    async def old(order: Order) -> None:
        world.seen.append(order)

    async def new(order: NewerOrder) -> None:
        world.seen.append(order)

    worker.on("work", **options)(new if newer else old)
    return worker


def with_plain_handler(world: World, *, newer: bool, **options: Any) -> tarry.Worker:
    worker = world.worker()

    def old(order: Order) -> None:
        world.seen.append(order)

    def new(order: NewerOrder) -> None:
        world.seen.append(order)

    worker.on("work", **options)(new if newer else old)
    return worker


def with_task(world: World, *, newer: bool, **options: Any) -> tarry.Worker:
    worker = world.worker()

    @worker.task(topic="work", **options)
    async def remind(user: int, text: str = "") -> None:
        world.seen.append(user)

    if newer:

        @worker.task(topic="work")
        async def greet(user: int) -> None:
            world.seen.append(user)

    return worker


def with_other_arguments(world: World, *, newer: bool, **options: Any) -> tarry.Worker:
    worker = world.worker()

    async def old(user: int) -> None:
        world.seen.append(user)

    async def new(user: int, text: str) -> None:
        world.seen.append(user)

    worker.task(topic="work", name="remind", **options)(new if newer else old)
    return worker


FITS_ONLY_THE_NEWER = [
    (with_handler, {"number": "A7"}),
    (with_plain_handler, {"number": "A7"}),
    (with_task, {"task": "greet", "args": {"user": 7}}),
    (with_other_arguments, {"task": "remind", "args": {"user": 7, "text": "tea"}}),
]
Make = Callable[..., tarry.Worker]


@pytest.mark.parametrize(("made", "body"), FITS_ONLY_THE_NEWER)
def test_a_newer_worker_handles_bodies_the_older_one_could_not_read(world: World, made: Make, body: Any) -> None:
    world.client.topic("work").add(body)
    world.run(made(world, newer=False))
    job = world.only_job("work")
    assert (job.state, job.attempts, world.seen) == ("delayed", 0 if made is with_task else 1, [])
    failed, unknown = str(job.reason).startswith("BodyError: "), str(job.note).startswith("nobody here knows task ")
    assert failed != unknown
    world.clock.advance("2s")
    world.run(made(world, newer=True))
    assert len(world.seen) == 1
    assert not list(world.client.topic("work").list())


@pytest.mark.parametrize(
    ("made", "body"), [one for one in FITS_ONLY_THE_NEWER if one[0] is not with_task]
)  # of a task that nobody knows no attempt counts
def test_an_unreadable_body_is_dead_after_its_last_attempt_and_can_be_kicked(
    world: World, made: Make, body: Any
) -> None:
    topic = world.client.topic("work")
    topic.add(body, id="7", max_attempts=3)
    for _ in range(3):
        world.run(made(world, newer=False))
        world.clock.advance("1h")
    job = world.only_job("work")
    assert (job.state, job.attempts, job.reason) == ("dead", 3, "attempts exhausted")
    assert str(job.error).startswith("BodyError: ")
    assert topic.kick("7")
    world.run(made(world, newer=True))
    assert len(world.seen) == 1


@pytest.mark.parametrize(("made", "body"), FITS_ONLY_THE_NEWER)
def test_a_retry_policy_can_bury_unreadable_bodies_at_once(world: World, made: Make, body: Any) -> None:
    world.client.topic("work").add(body)
    world.run(made(world, newer=False, retry={tarry.BodyError: None}))
    job = world.only_job("work")
    assert (job.state, job.attempts) == ("dead", 1)
    assert str(job.reason).startswith("BodyError: ")


def test_a_with_block_releases_an_unreadable_body_too(world: World) -> None:
    topic = world.client.topic("work", type=Order)
    world.client.topic("work").add({"number": "A7"}, id="7")
    job = topic.pop()
    assert job is not None
    with pytest.raises(tarry.BodyError), job:
        world.seen.append(job.body)
    found = topic.get("7")
    assert found is not None
    assert (found.state, found.attempts, world.seen) == ("delayed", 1, [])
    assert str(found.reason).startswith("BodyError: ")
    world.clock.advance("2s")
    again = world.client.topic("work", type=NewerOrder).pop()
    assert again is not None
    with again:
        assert again.body == NewerOrder("A7")
    assert topic.stats().finished == 1


def test_an_unreadable_body_has_the_usual_back_off(world: World) -> None:
    world.client.topic("work").add({"task": "remind", "args": {"user": 7, "text": "tea"}}, id="7")
    for seconds in (1, 2, 4):
        world.run(with_other_arguments(world, newer=False))
        job = world.only_job("work")
        assert job.due is not None
        wait = job.due - world.client.topic("work").stats().now
        assert 0.8 <= wait / timedelta(seconds=seconds) <= 1.2
        world.clock.advance(wait)
