"""Handlers of queues that are shared with Java: their argument, their errors, their start and stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.worker import Worker
from tarry.worker import worker_process as process
from tarry.worker.worker import override
from until import LONGEST_S
from warm import WarmTarry


@pytest.fixture
def worker(valkey_url: str) -> Worker:
    return Worker(url=valkey_url, grace=0)


def as_kind(kind: str, work: Callable[[Any], Any]) -> Any:
    """The same handler, async or in a thread."""

    async def handle(value: Any) -> Any:
        return work(value)

    return handle if kind == "async" else work


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_queue_handler_gets_each_value_and_a_failure_does_not_stop_it(
    worker: Worker, client: tarry.Client, name: str, kind: str
) -> None:
    seen: list[str] = []

    def work(value: str) -> Any:
        if value == "bad":
            raise ValueError("no such order")
        if value == "lazy":
            return map(seen.append, "cd")
        return seen.append(value)

    worker.on_queue(name, codec="river")(as_kind(kind, work))
    client.delayed_queue(name, codec="river").offer_many(["a", "bad", "b", "lazy"], 0)
    asyncio.run(worker.run_until_idle())
    assert seen == ["a", "b"]
    aside, lazy = client.blocking_queue(name).poison()
    assert (aside.raw, aside.reason) == (b"\x04>\x03bad", "handler: ValueError: no such order")
    assert lazy.reason.startswith("handler: TypeError: the handler returned a map, whose work is not done")


def test_a_worker_beside_an_application_handles_elements_as_they_become_due(
    worker: Worker, client: tarry.Client, name: str
) -> None:
    seen: list[str] = []

    async def story() -> None:
        all_there = asyncio.Event()

        @worker.on_queue(name, codec="string", concurrency=3)
        async def handle(value: str) -> None:
            seen.append(value)
            if len(seen) == 5:
                all_there.set()

        async with worker:
            queue = worker.async_client.delayed_queue(name, codec="string")
            for number in range(5):
                await queue.offer(str(number), f"{10 * (5 - number)}ms")
            await asyncio.wait_for(all_there.wait(), LONGEST_S)

    asyncio.run(story())
    assert sorted(seen) == list("01234")
    assert client.delayed_queue(name).stats().movers == 0  # it left in order


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_queue_handlers_run_up_to_their_concurrency(worker: Worker, client: tarry.Client, name: str, kind: str) -> None:
    lock, full, running, most = threading.Lock(), threading.Event(), 0, 0

    def count(step: int) -> None:
        nonlocal running, most
        with lock:
            running += step
            most = max(most, running)
            if running == 3:
                full.set()

    async def wait_for_the_others(value: str) -> None:
        count(1)
        await asyncio.to_thread(full.wait, LONGEST_S)
        await asyncio.sleep(0.002)
        count(-1)

    def in_a_thread(value: str) -> None:
        count(1)
        full.wait(LONGEST_S)
        threading.Event().wait(0.002)
        count(-1)

    worker.on_queue(name, codec="string", concurrency=3)(wait_for_the_others if kind == "async" else in_a_thread)
    client.delayed_queue(name, codec="string").offer_many(map(str, range(30)), 0)
    asyncio.run(worker.run_until_idle())
    assert most == 3


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_stopped_worker_puts_its_running_element_back_first(
    worker: Worker, client: tarry.Client, server: Any, name: str, kind: str
) -> None:
    let_go = threading.Event()

    async def story() -> None:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        async def never(value: str) -> None:
            begun.set()
            await asyncio.Event().wait()

        def thread(value: str) -> None:
            loop.call_soon_threadsafe(begun.set)
            let_go.wait(LONGEST_S)

        worker.on_queue(name, codec="string")(never if kind == "async" else thread)
        client.delayed_queue(name, codec="string").offer_many(["a", "b", "c"], 0)
        running = asyncio.ensure_future(worker.run(signals=False))
        await asyncio.wait_for(begun.wait(), LONGEST_S)
        worker.stop()
        assert await running == 1

    asyncio.run(story())
    let_go.set()
    assert server.lrange(name, 0, -1) == [b"a", b"b", b"c"]
    assert client.blocking_queue(name).poison() == []


APP = """
import asyncio, os, sys, threading
import tarry
worker = tarry.Worker(url=sys.argv[1])

@worker.on_queue(sys.argv[2], codec="string", concurrency=2)
def handle(value):
    os.write(1, f"{value}\\n".encode())  # whole lines, from two threads
    threading.Event().wait()

asyncio.run(worker.run())
"""


def test_a_killed_worker_loses_at_most_its_running_elements(
    valkey_url: str, worker: Worker, client: tarry.Client, name: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    client.delayed_queue(name, codec="string").offer_many(map(str, range(10)), 0)
    (tmp_path / "app.py").write_text(APP)
    with tarry_command.talk_to(tmp_path / "app.py", valkey_url, name) as (process, _, stdout):
        had = {stdout.readline().strip() for _ in range(2)}
        process.kill()
        process.wait()
    seen: list[str] = []
    worker.on_queue(name, codec="string")(as_kind("async", seen.append))
    asyncio.run(worker.run_until_idle())
    assert len(seen) >= 8
    assert had.isdisjoint(seen)
    assert had | set(seen) == set(map(str, range(10)))


def test_a_worker_moves_queues_that_only_java_consumes(
    worker: Worker, client: tarry.Client, server: Any, name: str
) -> None:
    async def story() -> None:
        @worker.on(f"topic-{name}")
        async def handle(job: tarry.AsyncJob[Any]) -> None: ...

        worker.keep_moving(name)
        async with worker:
            await worker.async_client.delayed_queue(name, codec="string").offer("tea", "10ms")
            assert await asyncio.to_thread(server.blpop, name, LONGEST_S) == (name.encode(), b"tea")

    asyncio.run(story())


def test_a_key_of_another_type_ends_the_worker_with_an_error(worker: Worker, server: Any, name: str) -> None:
    server.set(name, "something else")
    worker.on_queue(name, codec="string")(as_kind("async", lambda value: None))
    with pytest.raises(tarry.TarryError, match="WRONGTYPE"):
        asyncio.run(worker.run(signals=False))


def test_in_imaginary_time_a_worker_takes_due_elements(valkey_url: str, name: str) -> None:
    seen: list[str] = []
    clock = Clock()
    with TestClient(valkey_url, clock) as client:
        worker = Worker(client=client)
        worker.on_queue(name, codec="string")(as_kind("async", seen.append))
        client.delayed_queue(name, codec="string").offer("tea", "1h")
        asyncio.run(worker.run_until_idle())
        assert not seen
        clock.advance("1h")
        asyncio.run(worker.run_until_idle())
        assert seen == ["tea"]


def test_the_test_clock_stops_at_the_due_time_of_an_element(
    tarry_clock: Any, tarry_client: tarry.Client, worker: Worker, name: str
) -> None:
    seen: list[Any] = []
    worker.on_queue(name, codec="string")(as_kind("async", lambda value: seen.append((value, tarry_clock.now))))
    tarry_clock.attach(worker)
    due = tarry_client.delayed_queue(name, codec="string").offer("tea", "30m")
    tarry_clock.advance("1h")
    assert seen == [("tea", due)]


def test_queue_handlers_of_included_registries_are_used(worker: Worker, name: str) -> None:
    mail = tarry.Registry()

    @mail.on_queue(name, codec="json", concurrency=2)
    async def send(letter: dict[str, Any]) -> None: ...

    worker.include(mail)
    assert [route.queue for route in worker.registered.queue_routes()] == [name]
    assert "2 at a time" in process.banner(worker, 1)
    override(worker, topics=[name])
    assert worker.registered.routes() == []
    with pytest.raises(tarry.BadInput, match="handler already"):
        worker.on_queue(name)
    with pytest.raises(tarry.BadInput, match="already is a handler"):
        worker.include(mail)


@pytest.mark.parametrize(
    ("options", "why"), [({"codec": "cobol"}, "codec"), ({"concurrency": 0}, "concurrency"), ({"queue": ""}, "queue")]
)
def test_invalid_queue_options_are_refused_at_registration(worker: Worker, options: dict[str, Any], why: str) -> None:
    with pytest.raises(tarry.BadInput, match=why):
        worker.on_queue(**{"queue": "q", **options})


def test_a_queue_handler_takes_one_value_and_not_a_job(worker: Worker) -> None:
    async def takes_a_job(job: tarry.AsyncJob[str]) -> None: ...

    with pytest.raises(tarry.BadInput, match="annotated as a job"):
        worker.on_queue("q")(takes_a_job)
    with pytest.raises(tarry.BadInput, match="one argument"):
        worker.on_queue("q")(lambda: None)


def test_a_busy_worker_takes_no_element_without_a_free_slot(
    worker: Worker, client: tarry.Client, server: Any, name: str
) -> None:
    """Elements without a free slot stay in the queue, for another worker."""

    async def story() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        @worker.on_queue(name, codec="string")
        async def handle(value: str) -> None:
            begun.set()
            await let_go.wait()

        async with worker:
            client.blocking_queue(name, codec="string").put("a")
            await asyncio.wait_for(begun.wait(), LONGEST_S)
            client.blocking_queue(name, codec="string").put("b")
            assert await asyncio.to_thread(server.blpop, name, LONGEST_S) == (name.encode(), b"b")
            let_go.set()

    asyncio.run(story())
    assert not server.exists(keys_of(name).ready)
