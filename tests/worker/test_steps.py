"""Steps in handlers of every kind: a job that runs again does not do them again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from until import until


@pytest.fixture
def imaginary(valkey_url: str, namespace: str, clock: Clock) -> Any:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        yield client


def run(client: TestClient, clock: Clock, register: Callable[[tarry.Worker], object]) -> None:
    """Runs a worker until nothing is due, twice: between the two an hour passes."""
    for _ in range(2):
        url = client.engine.config.address.full_url or ""
        worker = tarry.Worker("shop", client=TestAsyncClient(url, clock, namespace=client.namespace))
        register(worker)
        asyncio.run(worker.run_until_idle())
        clock.advance("1h")


class Shop:
    """What was done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def does(self, what: str, answer: Any) -> Callable[[], Any]:
        def work() -> Any:
            self.done.append(what)
            return answer

        return work

    def does_later(self, what: str, answer: Any) -> Callable[[], Any]:
        async def work() -> Any:
            await asyncio.sleep(0)
            return self.does(what, answer)()

        return work

    def plain(self, job: tarry.Job[Any]) -> None:
        charge = job.step("charge", self.does("charge", 17))
        self.done.append(f"{job.attempt}: {charge}")
        if job.attempt == 1:
            raise ConnectionError("no mail server")
        job.step("mail", self.does("mail", None))

    async def awaited(self, job: tarry.AsyncJob[Any]) -> None:
        charge = await job.step("charge", self.does_later("charge", 17))
        self.done.append(f"{job.attempt}: {charge}")
        if job.attempt == 1:
            raise ConnectionError("no mail server")
        await job.step("mail", self.does("mail", None))

    def many(self, jobs: list[tarry.Job[Any]]) -> None:
        for job in jobs:
            self.plain(job)


@pytest.mark.parametrize("kind", ["plain", "awaited", "many"])
def test_a_handler_that_failed_goes_on_behind_its_last_step(imaginary: TestClient, clock: Clock, kind: str) -> None:
    """Promise: A kept step is not done again."""
    topic, shop = imaginary.topic("n"), Shop()
    topic.add("tea", id="7")
    batch: Any = {"batch": 10} if kind == "many" else {}
    run(imaginary, clock, lambda worker: worker.on("n", **batch)(getattr(shop, kind)))
    assert shop.done == ["charge", "1: 17", "2: 17", "mail"]
    assert topic.stats().finished == 1


def test_a_task_finds_its_job(imaginary: TestClient, clock: Clock) -> None:
    shop = Shop()
    added: list[str] = []

    def register(worker: tarry.Worker) -> None:
        @worker.task(name="charge")
        def charge(order: int) -> None:
            shop.plain(tarry.current_job())  # type: ignore[arg-type]  # in a thread it is one of a blocking client

        @worker.task(name="charge later")
        async def charge_later(order: int) -> None:
            job = tarry.current_job()
            await job.step("charge", shop.does_later("charge", order))

        if not added:
            imaginary.topic("shop").add({"task": "charge", "args": {"order": 7}})
            imaginary.topic("shop").add({"task": "charge later", "args": {"order": 8}})
            added.append("both")

    run(imaginary, clock, register)
    assert sorted(shop.done) == ["1: 17", "2: 17", "charge", "charge", "mail"]
    assert imaginary.topic("shop").stats().finished == 2


@pytest.mark.parametrize("kind", ["plain", "group"])
def test_a_step_that_ran_in_vain_is_not_repeated(imaginary: TestClient, clock: Clock, kind: str) -> None:
    topic, shop = imaginary.topic("n"), Shop()
    topic.add_many([tarry.NewJob("tea", id=id) for id in "ab"])

    def plain(job: tarry.Job[Any]) -> None:
        job.step("charge", shop.does(job.id, object() if job.id == "a" else 17))

    async def awaited(job: tarry.AsyncJob[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(job.step("charge", shop.does(job.id, object() if job.id == "a" else 17)))

    handle: Any = plain if kind == "plain" else awaited
    run(imaginary, clock, lambda worker: worker.on("n", retry={tarry.StepNotKept: "1s"})(handle))
    assert sorted(shop.done) == ["a", "b"]
    dead = topic.get("a")
    assert dead is not None
    assert (dead.state, dead.attempts) == ("dead", 1)
    assert (dead.reason or "").startswith("StepNotKept: Step 'charge' of job a has run, and its result is no JSON")


def test_a_step_is_kept_that_was_done_when_its_task_was_cancelled(imaginary: TestClient, clock: Clock) -> None:
    """Promise: A kept step is not done again."""
    topic, shop = imaginary.topic("n"), Shop()
    topic.add("tea", id="7")

    async def fail() -> None:
        raise ConnectionError("no mail server")

    async def handle(job: tarry.AsyncJob[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(job.step(f"charge {n}", shop.does(f"charge {n}", n)))
            if job.attempt == 1:
                group.create_task(fail())
        shop.done.append(f"{job.attempt}: {list(job.steps.values())}")

    run(imaginary, clock, lambda worker: worker.on("n")(handle))
    assert shop.done == ["charge 0", "charge 1", "charge 2", "2: [0, 1, 2]"]


def test_of_a_batch_only_the_job_is_set_aside_whose_step_ran_in_vain(imaginary: TestClient, clock: Clock) -> None:
    topic, shop = imaginary.topic("n"), Shop()
    topic.add_many([tarry.NewJob("tea", id=id) for id in "ab"])

    def handle(jobs: list[tarry.Job[Any]]) -> None:
        for job in jobs:
            job.step("charge", shop.does(job.id, object() if job.id == "a" else 17))

    run(imaginary, clock, lambda worker: worker.on("n", batch=10)(handle))
    assert (shop.done, topic.stats().dead, topic.stats().finished) == (["a", "b"], 1, 1)


def test_a_plain_function_refuses_a_step_that_is_async(imaginary: TestClient, clock: Clock) -> None:
    topic, shop = imaginary.topic("n"), Shop()
    topic.add("tea", id="7")

    def handle(job: tarry.Job[Any]) -> None:
        job.step("charge", shop.does_later("charge", 17))

    run(imaginary, clock, lambda worker: worker.on("n", retry={tarry.BadInput: None})(handle))
    dead = topic.get("7")
    assert dead is not None
    assert (
        dead.reason
        == "BadInput: step: its function is async, and the job is a plain function's; make the handler an async def."
    )
    assert (shop.done, dead.steps) == ([], {})


def test_a_worker_that_was_overtaken_stops_at_its_step(imaginary: TestClient, clock: Clock) -> None:
    topic, shop = imaginary.topic("n"), Shop()
    topic.add("tea", id="7")
    others: list[Any] = []

    def handle(job: tarry.Job[Any]) -> None:
        clock.advance("2m")
        others.append(topic.pop(ttr="10h"))
        job.step("charge", shop.does("charge", 17))
        shop.done.append("went on")

    run(imaginary, clock, lambda worker: worker.on("n", ttr="1m")(handle))
    assert shop.done == ["charge"]
    assert (others[0].step("charge", lambda: 18), topic.stats().reserved) == (18, 1)


def test_a_job_whose_workers_are_killed_does_each_kept_step_once(
    client: tarry.Client, start_worker: Callable[..., Any]
) -> None:
    """Promise: A kept step is not done again."""
    orders = client.topic("orders")
    orders.add("tea", id="7")
    lines: list[str] = []
    for _ in range(2):
        worker = start_worker("steps", ttr="2s")
        assert worker.process.wait() == -signal.SIGKILL
        lines += worker.lines
    last = start_worker("steps", ttr="1h")
    until(last.closed, "the third has finished it")
    lines += last.lines
    assert [line for line in lines if line.startswith("step")] == ["step charge", "step mail", "step mail"]
    assert "charge of attempt 1, mail of attempt 3" in last.lines
