"""Limits for each key that a handler or a task has: the worker gives them to the topic before its first job."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.programs.serving.conditions import assess_topic


@pytest.fixture
def imaginary(valkey_url: str, namespace: str, clock: Clock) -> Any:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        yield client


def worker_of(client: TestClient, clock: Clock) -> tarry.Worker:
    url = client.engine.config.address.full_url or ""
    return tarry.Worker("shop", client=TestAsyncClient(url, clock, namespace=client.namespace))


def test_a_handler_limits_each_key_before_its_first_job(imaginary: TestClient, clock: Clock) -> None:
    calls, worker = imaginary.topic("calls"), worker_of(imaginary, clock)
    calls.configure(key_rate="5/s")
    calls.add_many(range(5), key="a")
    calls.add_many(range(5), key="b")
    running, most = Counter[str | None](), Counter[str | None]()

    @worker.on("calls", key_concurrency=1, fair=True, key_rate=None, retry_holds_key=True)
    async def call(job: tarry.AsyncJob[int]) -> None:
        running[job.key] += 1
        most[job.key] = max(most[job.key], running[job.key])
        most["all"] = max(most["all"], running.total())
        for _ in range(5):
            await asyncio.sleep(0)
        running[job.key] -= 1

    asyncio.run(worker.run_until_idle())
    assert most == {"a": 1, "b": 1, "all": 2}
    found = calls.configure()
    assert (found.key_concurrency, found.key_rate, found.fair, found.retry_holds_key) == (1, None, True, True)


def test_a_worker_that_starts_again_takes_no_limits_that_it_does_not_name(imaginary: TestClient, clock: Clock) -> None:
    calls, worker = imaginary.topic("calls"), worker_of(imaginary, clock)
    calls.configure(key_concurrency=3, key_rate="5/s", fair=True)
    worker.on("calls", key_rate="2/s")(lambda job: None)
    asyncio.run(worker.run_until_idle())
    found = calls.configure()
    assert (found.key_concurrency, str(found.key_rate), found.fair) == (3, "2/1s", True)


def test_tasks_of_a_topic_limit_its_keys_together(imaginary: TestClient, clock: Clock) -> None:
    worker, others = worker_of(imaginary, clock), tarry.Registry()

    @worker.task(key=lambda user: user, key_concurrency=2)
    async def remind(user: str) -> None: ...

    @others.task(topic="shop", key_concurrency=2, fair=True)
    async def greet(user: str) -> None: ...

    worker.include(others)
    asyncio.run(worker.run_until_idle())
    found = imaginary.topic("shop").configure()
    assert (found.key_concurrency, found.key_rate, found.fair) == (2, None, True)

    worker.task(name="third", key_concurrency=3)(lambda user: None)
    with pytest.raises(tarry.BadInput, match="key_concurrency: two tasks of shop say 2 and 3; it is a setting of"):
        asyncio.run(worker.run_until_idle())


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"key_concurrency": 0}, "key_concurrency: 0; .* pause the key"),
        ({"key_rate": "often"}, "key_rate: 'often'"),
        ({"fair": "yes"}, "fair: 'yes'; it is True"),
    ],
)
def test_a_wrong_limit_is_refused_where_it_is_written(limits: dict[str, Any], says: str) -> None:
    registry = tarry.Registry()
    with pytest.raises(tarry.BadInput, match=says):
        registry.on("calls", **limits)
    with pytest.raises(tarry.BadInput, match=says):
        registry.task(**limits)


def order_of(order: str, urgent: bool = False) -> None: ...


async def awaited(order: str, urgent: bool = False) -> str:
    return order


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (lambda order: order, r"it has the same parameters: key=lambda order, urgent=…: …"),
        (lambda order, urgent: order, r"it has the same parameters"),
        (lambda o, urgent=False: o, r"it has the same parameters"),
        (awaited, "it is an async function, and a job's key is made when the job is added"),
    ],
)
def test_a_function_for_keys_that_cannot_be_called_as_the_task_is_refused(key: Any, says: str) -> None:
    with pytest.raises(tarry.BadInput, match=says):
        tarry.Registry().task(key=key)(order_of)


def test_an_error_of_a_function_for_keys_names_its_task_and_adds_nothing(imaginary: TestClient, clock: Clock) -> None:
    worker = worker_of(imaginary, clock)
    kept = worker.task(key=lambda order, **more: order[7])(order_of)
    with pytest.raises(IndexError) as caught:
        kept.body("short"), kept.new_job("short")
    assert caught.value.__notes__ == ["It was raised by key= of the task order_of; nothing was added."]
    with pytest.raises(TypeError, match=r"tarry's word is a rate of the topic, .*key_rate= is that of each key"):
        worker.on("calls", rate="5/s")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="tarry's word is key=, an argument of add"):
        worker.on("calls", key="a")  # type: ignore[call-arg]
    assert not imaginary.topics()


def test_a_topic_with_partitions_has_none(
    imaginary: TestClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    seen = list[str]()
    imaginary.topic("calls", partitions=2).add(1)
    imaginary.topic("calm").add(2)

    def handle(job: tarry.Job[int]) -> None:
        seen.append(job.topic)

    worker = worker_of(imaginary, clock)
    worker.on("calls", fair=True)(handle)
    with pytest.raises(tarry.BadInput, match=r"fair: .*calls.*2 partitions"):
        asyncio.run(worker.run_until_idle())
    assert seen == []

    worker = worker_of(imaginary, clock)
    worker.on("cal*", fair=True)(handle)
    with caplog.at_level(logging.WARNING):
        asyncio.run(worker.run_until_idle())
    assert sorted(seen) == ["calls", "calm"]
    assert "calls has no limits for each key: fair:" in caplog.text
    assert imaginary.topic("calm").configure().fair


def test_of_200_tenants_each_gets_five_a_second_while_one_floods(imaginary: TestClient, clock: Clock) -> None:
    """Promise: Keys."""
    calls = imaginary.topic("calls")
    calls.configure(key_rate="5/s", key_concurrency=1, fair=True)
    calls.add_many(range(500), key="tenant-0")
    calls.add_many(tarry.NewJob(n, key=f"tenant-{tenant}") for tenant in range(1, 200) for n in range(4))
    begun = Counter[str | None]()
    for fifth in range(1, 6):
        jobs = calls.pop_many(500)
        begun.update(job.key for job in jobs)
        assert set(begun.values()) == ({fifth} if fifth < 5 else {4, 5}), "the others have four jobs each"
        assert calls.pop() is None
        calls.finish_many(jobs)
        clock.advance("199ms")
        assert calls.pop() is None
        clock.advance("1ms")
    assert (len(begun), begun["tenant-0"], calls.stats().ready) == (200, 5, 495)


@pytest.mark.parametrize("fair", [False, True])
def test_jobs_that_wait_for_their_key_are_not_late(imaginary: TestClient, clock: Clock, fair: bool) -> None:
    calls = imaginary.topic("calls")
    calls.configure(key_rate="5/s", fair=fair)
    calls.add_many(range(100), key="flood")
    for _ in range(50):
        calls.finish_many(calls.pop_many(9))
        clock.advance("200ms")
    calls.finish_many(calls.pop_many(9))
    clock.advance("10ms")
    calls.add(1, key="other")
    clock.advance("3ms")
    found = calls.stats()
    assert (found.ready, found.held_back, found.limited) == (50, 49, None)
    [condition] = assess_topic(found, [])
    assert condition.sentence == "49 jobs are held back by the limits of their keys."
    clock.advance("1m")
    sentences = [one.sentence for one in assess_topic(calls.stats(), [])]
    assert "2 jobs are overdue, the first by 1 m." in sentences, "nobody takes those that can go"
    assert "48 jobs are held back by the limits of their keys." in sentences
