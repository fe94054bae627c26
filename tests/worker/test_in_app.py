"""A worker inside an application: its client, its lifetime, and the jobs that it puts back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from faults.blocked_clients import blocked
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.requests import Command
from until import until


async def becomes(is_true: Callable[[], object]) -> None:
    await asyncio.to_thread(until, is_true, "it")


def connections(client: tarry.Client) -> set[bytes]:
    """The ids of the server's connections."""
    listed = client.engine.run(Command((b"CLIENT", b"LIST"), bytes))
    return {line.split()[0] for line in listed.splitlines()}


def test_a_cancelled_run_leaves_no_task_behind(own_server: Callable[..., ServerProcess]) -> None:
    async def main() -> None:
        worker = tarry.Worker("shop", url=server.url)
        worker.on("orders")(lambda job: None)
        before = asyncio.all_tasks()
        run = asyncio.ensure_future(worker.run(signals=False))
        await becomes(lambda: blocked(server))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        loop = asyncio.get_running_loop()
        await becomes(lambda: asyncio.all_tasks(loop) <= before)

    server = own_server()
    asyncio.run(main())


@pytest.mark.parametrize("kind", [tarry.Client, tarry.AsyncClient, str])
def test_a_worker_closes_only_its_own_clients(valkey_url: str, namespace: str, kind: Any) -> None:
    async def main() -> None:
        before = connections(client)
        place: Any = {"url": valkey_url, "namespace": namespace}
        worker = tarry.Worker("shop", **(place if kind is str else {"client": kind(**place)}))

        @worker.task
        def plain(n: int) -> None: ...

        @worker.task
        async def awaited(n: int) -> None: ...

        async with worker:
            plain.add(1)
            await awaited.add_async(2)
            await becomes(lambda: client.topic("shop").stats().finished == 2)
            mine = connections(client) - before
        await becomes(lambda: len(connections(client) - before) == (0 if kind is str else 1))
        assert connections(client) - before <= mine, "the very connection that the task was added by"
        await worker.close()
        await becomes(lambda: connections(client) <= before)

    with tarry.Client(valkey_url, namespace=namespace) as client:
        connections(client)
        asyncio.run(main())


def test_using_switches_a_worker_to_another_server_temporarily(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url="redis://nowhere.invalid", namespace="elsewhere")

    @worker.task
    def plain(n: int) -> None: ...

    with tarry.Client(valkey_url, namespace=namespace) as client:
        for server in ({"server": client}, {"server": valkey_url, "namespace": namespace}):
            with worker.using(**server):  # type: ignore[arg-type]
                plain.add(1)
                asyncio.run(worker.run_until_idle())
        assert client.topic("shop").stats().finished == 2
    assert worker.async_client.namespace == "elsewhere"


def test_using_says_whether_async_with_starts_the_worker(valkey_url: str, namespace: str) -> None:
    started: list[str] = []

    class Starting(tarry.Worker):
        async def run(self, *, signals: bool = True) -> int:
            started.append(self.async_client.namespace)
            return await super().run(signals=signals)

    async def nothing() -> None: ...

    async def main() -> None:
        worker = Starting("shop", url=valkey_url)
        worker.task(nothing)
        for start, name in ((False, f"{namespace}-off"), (True, namespace)):
            with worker.using(valkey_url, namespace=name, start=start):
                async with worker:
                    pass
                await worker.close()

    asyncio.run(main())
    assert started == [namespace]


def test_async_with_runs_a_worker(valkey_url: str, namespace: str) -> None:
    async def main() -> None:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
        done = asyncio.Event()

        @worker.on("n")
        async def handle(job: Any) -> None:
            done.set()

        for _ in range(2):
            done.clear()
            async with worker, tarry.AsyncClient(valkey_url, namespace=namespace) as client:
                await client.topic("n").add("x")
                await done.wait()
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            assert (await client.topic("n").stats()).finished == 2

    asyncio.run(main())


def test_a_worker_that_runs_is_refused_a_second_run(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    done = asyncio.Event()

    @worker.task
    async def work() -> None:
        done.set()

    async def main() -> None:
        async with worker:
            with pytest.raises(tarry.BadInput, match=r"it runs already.* `async with` it once"):
                async with worker:
                    pytest.fail("two runs")
            for run in (worker.run, worker.run_until_idle):
                with pytest.raises(tarry.BadInput, match="it runs already"):
                    await run()
            work.add()
            await done.wait()  # the first one goes on
        both = await asyncio.gather(worker.__aenter__(), worker.__aenter__(), return_exceptions=True)
        assert both[0] is worker
        assert isinstance(both[1], tarry.BadInput)
        await worker.__aexit__(None, None, None)
        async with worker:  # one after the other they may
            pass

    asyncio.run(main())


def test_a_run_in_a_thread_says_how_it_is_started_there(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.on("orders")(lambda job: None)

    async def main() -> None:
        with pytest.raises(
            tarry.BadInput, match=r"main thread only.*write worker.run\(signals=False\), or `async with"
        ):
            await asyncio.to_thread(asyncio.run, worker.run())
        assert await asyncio.to_thread(asyncio.run, worker.run_until_idle()) == 0, "which handles no signals"

    asyncio.run(main())


def test_async_with_raises_when_the_worker_cannot_start(valkey_url: str) -> None:
    async def main() -> None:
        with pytest.raises(tarry.BadInput, match="no handler"):
            async with tarry.Worker("shop", url=valkey_url):
                raise AssertionError

    asyncio.run(main())


def test_a_worker_that_ends_with_an_error_logs_it_at_once(
    own_server: Callable[..., ServerProcess], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        worker = tarry.Worker("shop", url=own_server("--rename-command", "EVALSHA", "").url)
        worker.on("n")(print_nothing)
        for times in (1, 2):  # what ended once does not hold up the next start
            with pytest.raises(tarry.ServerUnfit):
                await beside(worker, times)

    async def beside(worker: tarry.Worker, times: int) -> None:
        async with worker:
            await becomes(lambda: len(caplog.records) == times)

    caplog.set_level(logging.ERROR, "tarry.worker")
    asyncio.run(main())
    assert caplog.messages[0].startswith("✗ The worker has ended, no job is handled any more: ")


def test_a_cancelled_shutdown_gives_running_jobs_back(valkey_url: str, namespace: str) -> None:
    """Its shutdown is cancelled while the worker waits for the end of a handler."""

    async def main() -> None:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, grace="10h")
        began, leaving = asyncio.Event(), asyncio.Event()

        @worker.on("n")
        async def stuck(job: Any) -> None:
            began.set()
            await asyncio.Event().wait()

        async def application() -> None:
            async with worker:
                await began.wait()
                leaving.set()

        running = asyncio.create_task(application())
        await leaving.wait()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add("x", id="7")
        asyncio.run(main())
        job = client.topic("n").get("7")
        assert job is not None
        assert (job.state, job.attempts) == ("ready", 0)


async def print_nothing(job: Any) -> None: ...
