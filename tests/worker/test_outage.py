"""A worker whose server goes away and comes back: it goes on by itself, and does not talk much about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import servers
import tarry
from faults.proxy import Proxy
from tarry.clients.replies import RETURNED
from tarry.clients.replies import logger as retry_logger
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import TarryError, Unavailable
from tarry.verbs.workers import forget_worker
from tarry.worker import heartbeat, task_schedules
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.task_schedules import ScheduleDeclarer
from until import LONGEST_S


@pytest.fixture
def proxy(own_server: Callable[..., ServerProcess]) -> Iterator[Proxy]:
    with servers.short_folder() as folder:
        proxy = Proxy(folder, own_server().address)
        yield proxy
        proxy.close()


class LogCapture(logging.Handler):
    """The log lines of a worker; a test can wait for one of them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._more = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self._loop.call_soon_threadsafe(self._more.set)

    async def until(self, words: str) -> None:
        while not any(words in line for line in self.lines):
            self._more.clear()
            async with asyncio.timeout(LONGEST_S):
                await self._more.wait()


@pytest.mark.parametrize("first", ["declares", "meets an outage"])
def test_schedules_are_declared_at_the_start_or_soon_after_an_outage(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(task_schedules, "REDECLARE_S", 3600.0)
    monkeypatch.setattr(task_schedules, "RETRY_S", 3600.0 if first == "declares" else 0.01)

    async def story() -> None:
        async with tarry.AsyncClient(proxy.url(), patience="100ms") as client:
            worker = tarry.Worker("shop", client=client)
            worker.every("1h")(tidy)
            declarer = ScheduleDeclarer([client.topic("shop")], worker.registered.schedules(), outage := Outage())
            proxy.refusing = first != "declares"
            declaring = asyncio.ensure_future(declarer.run(declared=False))
            async with asyncio.timeout(LONGEST_S):
                while proxy.refusing:
                    await asyncio.sleep(0.01)
                    proxy.refusing = not outage.ongoing
                while not await client.schedules.list("shop"):  # noqa: ASYNC110  # only the server knows
                    await asyncio.sleep(0.01)
            declaring.cancel()

    async def tidy() -> None: ...

    asyncio.run(story())


@pytest.mark.parametrize("plain", [False, True])
def test_a_worker_waits_for_its_server_and_logs_it_once(proxy: Proxy, plain: bool) -> None:
    done: list[int] = []

    async def story() -> None:
        log_capture, three = LogCapture(), asyncio.Event()
        logger = logging.getLogger("tarry.worker")
        logger.addHandler(log_capture)
        loop = asyncio.get_running_loop()
        worker = tarry.Worker("shop", client=tarry.AsyncClient(proxy.url(), patience="100ms"), ttr="20s")

        def note(job: Any) -> None:
            done.append(job.body)
            loop.call_soon_threadsafe(three.set)

        async def awaited(job: Any) -> None:
            note(job)

        for topic in ("a", "b", "c"):
            worker.on(topic)(note if plain else awaited)
        try:
            async with worker, tarry.AsyncClient(f"unix://{proxy.target}") as direct:
                await _another(direct, "a", 1, three)
                proxy.refusing = True
                proxy.cut_all()
                await direct.topic("a").add(2)
                await log_capture.until("Waiting for it.")
                proxy.refusing = False
                await log_capture.until("The server answers again, after ")
                for topic, number in (("a", 3), ("b", 4), ("c", 5)):
                    await _another(direct, topic, number, three)
            assert [text for text in log_capture.lines if "Waiting for it." in text] == [
                text for text in log_capture.lines if text.startswith("✗ The server")
            ], log_capture.lines
            assert sum("answers again" in text for text in log_capture.lines) == 1
            assert sum("Waiting for it." in text for text in log_capture.lines) == 1
        finally:
            logger.removeHandler(log_capture)
        async with tarry.AsyncClient(f"unix://{proxy.target}") as direct:
            for topic in ("a", "b", "c"):
                stats = await direct.topic(topic).stats()
                assert (stats.ready, stats.reserved, stats.dead) == (0, 0, 0)

    async def _another(client: tarry.AsyncClient, topic: str, number: int, told: asyncio.Event) -> None:
        await client.topic(topic).add(number)
        while number not in done:
            told.clear()
            async with asyncio.timeout(LONGEST_S):
                await told.wait()

    asyncio.run(story())
    assert sorted(done) == [1, 2, 3, 4, 5]


def test_an_outage_ends_with_the_next_answer_to_anyone(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    failed, other = ServerHealth(outage), ServerHealth(outage)
    failed.failed(Unavailable("No answer."))
    failed.idle()
    other.succeeded()
    assert not outage.ongoing
    assert [text.startswith("✓ The server answers again, after ") for text in caplog.messages] == [False, True]


def test_the_end_of_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """By the worker, or by the client whose call waited, if that was all."""
    outage = Outage()
    health = ServerHealth(outage)
    with outage.logs_retries_of("redis://one"):
        retry_logger.warning(RETURNED, "redis://one", 1.5)
        assert len(caplog.messages) == 1
        health.failed(Unavailable("No answer."))
        retry_logger.warning(RETURNED, "redis://one", 1.5)
        health.succeeded()
        retry_logger.warning(RETURNED, "redis://one", 3600.0)
    told = [text for text in caplog.messages if "answers again" in text]
    assert [text.partition(" answers")[0] for text in told] == ["The server at redis://one", "✓ The server"]


def test_a_worker_that_the_server_has_forgotten_is_known_again_after_an_outage(
    proxy: Proxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `tarry doctor` says that nobody takes the jobs, until the next report; here that is far away."""
    monkeypatch.setattr(heartbeat, "SECOND_REPORT_S", 3600.0)
    monkeypatch.setattr(heartbeat, "REPORT_EVERY_S", 3600.0)

    async def story() -> None:
        worker = tarry.Worker("shop", client=tarry.AsyncClient(proxy.url(), patience="100ms", namespace=namespace))
        log_capture = LogCapture()
        logging.getLogger("tarry.worker").addHandler(log_capture)

        @worker.on("orders")
        async def handle(job: Any) -> None: ...

        try:
            async with worker, tarry.AsyncClient(f"unix://{proxy.target}", namespace=namespace) as direct:
                await known(direct)
                proxy.refusing = True
                proxy.cut_all()
                await log_capture.until("Waiting for it.")
                [info] = await direct.workers()
                await direct.engine.run(forget_worker(namespace, info.name.encode()))
                assert await direct.workers() == []
                proxy.refusing = False
                await known(direct)
        finally:
            logging.getLogger("tarry.worker").removeHandler(log_capture)

    async def known(direct: tarry.AsyncClient) -> None:
        async with asyncio.timeout(LONGEST_S):
            while not await direct.workers():  # noqa: ASYNC110  # only the server knows
                await asyncio.sleep(0.01)

    asyncio.run(story())


@pytest.mark.slow
def test_a_server_that_is_not_there_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    [port] = servers.free_ports(1)

    async def story() -> None:
        log_capture, logger, loop = LogCapture(), logging.getLogger("tarry"), asyncio.get_running_loop()
        logger.addHandler(log_capture)
        monkeypatch.setattr(logger, "level", logging.INFO)
        given_up, report = asyncio.Event(), Outage.report

        def spy(outage: Outage, fault: TarryError, health: ServerHealth | None = None) -> None:
            report(outage, fault, health)
            if health is not None:
                loop.call_soon_threadsafe(given_up.set)

        monkeypatch.setattr(Outage, "report", spy)
        worker = tarry.Worker("shop", client=tarry.AsyncClient(f"redis://127.0.0.1:{port}", patience="3s"))
        for topic in ("a", "b", "c"):
            worker.on(topic)(handle)
        stopped = asyncio.ensure_future(worker.run(signals=False))
        try:
            await log_capture.until("Waiting for it.")
            async with asyncio.timeout(LONGEST_S):
                await given_up.wait()
        finally:
            worker.stop()
            await stopped
            logger.removeHandler(log_capture)
        told = [line for line in log_capture.lines if "answer" in line]
        assert len(told) == 1, told
        assert told[0].startswith(f"✗ The server at redis://127.0.0.1:{port} does not answer: Error 111")

    async def handle(job: Any) -> None: ...

    asyncio.run(story())
