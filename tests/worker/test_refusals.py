"""A worker that has worked once waits while its server refuses: resets, a full disk, a changed password."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.disks import Disk, full_disks
from faults.proxy import Proxy
from loops import LOOPS, run
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from until import until
from warm import WarmTarry

HERE = Path(__file__).parent
ON_ASYNCIO, ON_UVLOOP = (pytest.mark.parametrize("loop", [loop]) for loop in ("asyncio", "uvloop"))
"""A story in which nothing of the worker's own differs by the loop runs on one of them."""
JOBS = 40


class LogCapture(logging.Handler):
    """What the worker says of the server, from WARNING on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # not of a handler that failed, nor of jobs whose TTR was over before the server answered
        if re.match("[✗✓] The server", record.getMessage()):
            self.lines.append(record.getMessage())


@pytest.fixture
def log_capture() -> Iterator[LogCapture]:
    handler = LogCapture()
    logging.getLogger("tarry.worker").addHandler(handler)
    yield handler
    logging.getLogger("tarry.worker").removeHandler(handler)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with full_disks() as made:
        yield made


@pytest.fixture
def proxy(own_server: Callable[..., ServerProcess]) -> Iterator[Proxy]:
    proxy = Proxy(None, own_server(port=True).address)
    yield proxy
    proxy.close()


class Work:
    """A worker with every kind of work, and what it has done."""

    def __init__(self, url: str, *, patience: str = "200ms") -> None:
        self.done: set[str] = set()
        self.hold = asyncio.Event()
        self.hold.set()
        self.worker = worker = tarry.Worker("shop", client=tarry.AsyncClient(url, patience=patience), ttr="20s")

        @worker.on("awaited", concurrency=4)
        async def awaited(job: tarry.AsyncJob[Any]) -> None:
            self.done.add(f"awaited {job.body}")
            await self.hold.wait()

        @worker.on("plain", concurrency=4)
        def plain(job: tarry.Job[Any]) -> None:
            self.done.add(f"plain {job.body}")

        @worker.on("failing", concurrency=2, retry={ValueError: 0})
        async def failing(job: tarry.AsyncJob[Any]) -> None:
            if job.attempt == 1:
                raise ValueError("the first time")
            self.done.add(f"failing {job.body}")

        @worker.on_queue("queue", codec="json", concurrency=2)
        async def element(value: Any) -> None:
            self.done.add(f"queue {value}")

        @worker.every("1h")
        async def hourly() -> None: ...

    def give(self, url: str, bodies: list[int]) -> set[str]:
        """Work for all of them; answers what is to be done then."""
        with tarry.Client(url) as client:
            for topic in ("awaited", "plain", "failing"):
                client.topic(topic).add_many(bodies)
            for body in bodies:
                client.blocking_queue("queue", codec="json").offer(body)
        return {f"{kind} {body}" for kind in ("awaited", "plain", "failing", "queue") for body in bodies}

    async def until_done(self, wanted: set[str]) -> None:
        await asyncio.to_thread(until, lambda: wanted <= self.done, "everything done")

    async def until_settled(self, url: str) -> None:
        def is_settled() -> bool:
            with tarry.Client(url) as client:
                found = [client.topic(name).stats() for name in ("awaited", "plain", "failing")]
                return not any(stats.ready + stats.delayed + stats.reserved for stats in found)

        await asyncio.to_thread(until, is_settled, "everything settled")


def unfinished(stats: tarry.Stats) -> int:
    """The jobs that a worker has still to do, at one moment."""
    return stats.ready + stats.reserved


def scripts(server: ServerProcess) -> int:
    """How many it was asked to run."""
    said = server.ask("INFO", "commandstats")
    assert isinstance(said, bytes)
    return sum(int(calls) for calls in re.findall(r"cmdstat_(?:eval|blpop)\w*:calls=(\d+)", said.decode()))


@ON_ASYNCIO
def test_a_worker_survives_connection_resets(proxy: Proxy, loop: str) -> None:
    async def story() -> None:
        host, port = proxy.target
        direct = f"redis://{host}:{port}"
        work = Work(f"redis://{proxy.address}", patience="10s")
        async with work.worker:
            await work.until_done(await asyncio.to_thread(work.give, direct, [-1]))
            for turn in range(8):
                given = asyncio.ensure_future(asyncio.to_thread(work.give, direct, list(range(3 * turn, 3 * turn + 3))))
                while not given.done():
                    proxy.reset_all()
                    await asyncio.sleep(0.01)
            topics = {f"{kind} {n}" for kind in ("awaited", "plain", "failing") for n in range(24)}
            await work.until_done(topics)  # an element of a queue may be lost with its line
            await work.until_settled(direct)
            assert work.worker._task is not None
            assert not work.worker._task.done()

    run(loop, story())


@ON_UVLOOP
def test_a_worker_waits_while_the_disk_is_full_and_logs_it_once(disk: Disk, loop: str, log_capture: LogCapture) -> None:
    async def story() -> None:
        url = disk.server.url
        work = Work(url, patience="3s")  # a busy machine's server may need longer than 0.2 s to refuse
        async with work.worker:
            await work.until_done(await asyncio.to_thread(work.give, url, [0]))
            await work.until_settled(url)
            work.hold.clear()
            wanted = await asyncio.to_thread(work.give, url, [1, 2, 3])
            await work.until_done(wanted)
            await asyncio.to_thread(disk.fill)
            work.hold.set()  # what runs ends now, and cannot be settled
            began, before = time.monotonic(), scripts(disk.server)
            await asyncio.to_thread(
                until, lambda: log_capture.lines and scripts(disk.server) > before + 30, "tried again"
            )
            a_second = (scripts(disk.server) - before) / (time.monotonic() - began)
            await asyncio.to_thread(disk.free)
            await asyncio.to_thread(until, lambda: len(log_capture.lines) > 1, "told that it is over")
            await work.until_done(await asyncio.to_thread(work.give, url, [4, 5, 6]))
            await work.until_settled(url)
            await asyncio.to_thread(until, lambda: len(log_capture.lines) % 2 == 0, "the end of the outage")
        assert a_second < 100  # ten parts ask, each at most some times a second
        refused, answers = log_capture.lines[::2], log_capture.lines[1::2]
        assert len(refused) <= 2, "once, and once more if a refusal was still on its way when another part was answered"
        assert all(
            re.match(r"✗ .* refuse[ds] .*cannot write to its disk.*free space.* Waiting for it\.$", at)
            for at in refused
        )
        assert all(re.fullmatch(r"✓ The server answers again, after \d+\.\d s\.", at) for at in answers)

    run(loop, story())


@ON_ASYNCIO
def test_a_worker_waits_while_its_password_is_wrong(
    own_server: Callable[..., ServerProcess], loop: str, log_capture: LogCapture
) -> None:
    server = own_server(port=True)
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    assert not isinstance(server.address, str)
    direct = "redis://{}:{}".format(*server.address)

    async def story() -> None:
        # A killed connection is replaced within the patience, and not logged: only the refusal is.
        work = Work(direct.replace("//", "//worker:secret@"), patience="10s")
        async with work.worker:
            await work.until_done(await asyncio.to_thread(work.give, direct, [0]))
            server.ask("ACL", "SETUSER", "worker", "resetpass", ">other")
            server.ask("CLIENT", "KILL", "USER", "worker")
            await asyncio.to_thread(until, lambda: log_capture.lines, "told")
            wanted = await asyncio.to_thread(work.give, direct, [1, 2])
            server.ask("ACL", "SETUSER", "worker", "resetpass", ">secret")
            await work.until_done(wanted)
            await work.until_settled(direct)
            await asyncio.to_thread(until, lambda: len(log_capture.lines) > 1, "the end of the outage")
        assert [re.sub(r"\d+\.\d s", "… s", line) for line in log_capture.lines] == [
            "✗ The server refused the user or password; correct the URL. Waiting for it.",
            "✓ The server answers again, after … s.",
        ]

    run(loop, story())


@LOOPS
def test_a_worker_that_never_worked_ends_with_the_error(own_server: Callable[..., ServerProcess], loop: str) -> None:
    server = own_server(port=True, requirepass="secret")  # of a test's server
    assert not isinstance(server.address, str)
    work = tarry.Worker("shop", url="redis://:wrong@{}:{}".format(*server.address))
    for topic in "abc":
        work.on(topic)(void)
    with pytest.raises(tarry.ServerUnfit, match="user or password"):
        run(loop, work.run(signals=False))


@pytest.mark.parametrize(("loop", "how"), [("asyncio", "stopped"), ("uvloop", "in hand")])
def test_a_waiting_worker_can_be_stopped(disk: Disk, loop: str, how: str, log_capture: LogCapture) -> None:
    async def story() -> None:
        url = disk.server.url
        work = Work(url)
        running = asyncio.ensure_future(work.worker.run(signals=False))
        await work.until_done(await asyncio.to_thread(work.give, url, [0]))
        await work.until_settled(url)
        if how == "in hand":
            work.hold.clear()
            await work.until_done(await asyncio.to_thread(work.give, url, [1]))
        await asyncio.to_thread(disk.fill)
        work.hold.set()
        await asyncio.to_thread(until, lambda: log_capture.lines, "told")
        work.worker.stop()
        assert await running == 0

    run(loop, story())


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["1", "2"])
def test_tarry_worker_survives_a_full_disk_and_exits_with_0_on_a_signal(
    disk: Disk, processes: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    place = {"TARRY_URL": disk.server.url, "DIARY": str(tmp_path / "journal"), "TTR": "20s"}
    said = tmp_path / "said"
    with said.open("w") as file, tarry.Client(disk.server.url) as client:
        words = ["worker", "worker_app:worker", "--processes", processes]
        process = tarry_command.start(words, file, place, HERE)
        try:
            orders = client.topic("orders")
            orders.add_many(["quick"] * JOBS)
            until(lambda: orders.stats().finished == JOBS)
            disk.fill()
            until(lambda: "Waiting for it." in said.read_text() or process.poll() is not None)
            disk.free()
            orders.add_many(["quick"] * JOBS)
            until(lambda: unfinished(orders.stats()) == 0 or process.poll() is not None)
            assert process.poll() is None, said.read_text()
            disk.fill()
            process.terminate()
            assert process.wait() == 0, said.read_text()
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in said.read_text()
    assert "never retrieved" not in said.read_text()


@pytest.mark.slow
def test_tarry_worker_and_its_children_survive_connection_resets(
    proxy: Proxy, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    host, port = proxy.target
    place = {"TARRY_URL": f"redis://{proxy.address}", "DIARY": str(tmp_path / "journal"), "TTR": "1s"}
    said = tmp_path / "said"
    with said.open("w") as file, tarry.Client(f"redis://{host}:{port}") as client:
        process = tarry_command.start(["worker", "worker_app:worker", "--processes", "2"], file, place, HERE)
        try:
            orders = client.topic("orders")
            for _ in range(25):
                before = orders.stats().finished
                orders.add_many(["quick"] * JOBS)
                until(lambda at=before: orders.stats().finished > at or process.poll() is not None)
                proxy.reset_all()
            until(lambda: unfinished(orders.stats()) == 0 or process.poll() is not None)
            assert process.poll() is None, said.read_text()
            process.terminate()
            assert process.wait() == 0, said.read_text()
        finally:
            process.kill()
            process.wait()
    assert "ended with" not in said.read_text()
    assert "never retrieved" not in said.read_text()


@pytest.mark.slow
def test_a_refused_child_is_restarted_once_others_have_worked(
    own_server: Callable[..., ServerProcess], tmp_path: Path, tarry_command: WarmTarry
) -> None:
    server = own_server(port=True)
    server.ask("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
    assert not isinstance(server.address, str)
    direct = "redis://{}:{}".format(*server.address)
    place = {"TARRY_URL": direct.replace("//", "//worker:secret@"), "DIARY": str(tmp_path / "journal"), "TTR": "1s"}
    said = tmp_path / "said"

    def taken() -> list[str]:
        return (tmp_path / "journal").read_text().splitlines() if (tmp_path / "journal").exists() else []

    with said.open("w") as file, tarry.Client(direct) as client:
        process = tarry_command.start(["worker", "worker_app:worker", "--processes", "2"], file, place, HERE)
        try:
            client.topic("orders").add("stuck")
            until(lambda: taken() and client.topic("orders").list("reserved"))
            until(lambda: len(client.workers()) == 2)
            until(
                lambda: server.ask("CLIENT", "LIST").count(b"cmd=blpop") == 4,
                "both wait for more jobs and for questions",
            )
            pid = int(taken()[0].split()[3])
            server.ask("ACL", "SETUSER", "worker", "resetpass", ">other")
            with pytest.raises(plain_client.ErrorReply):
                server.ask("ACL", "DELUSER", "default")
            os.kill(pid, 9)
            until(lambda: "ended with 3" in said.read_text() or process.poll() is not None)
            assert process.poll() is None, said.read_text()
            server.ask("ACL", "SETUSER", "worker", "resetpass", ">secret")
            client.topic("orders").add_many(["quick"] * 8)
            until(lambda: client.topic("orders").stats().finished == 8 or process.poll() is not None)
            until(lambda: len({line.split()[3] for line in taken() if line.startswith("taken")} - {str(pid)}) > 0)
            process.terminate()
            process.send_signal(2)
            assert process.wait() in (0, 4), said.read_text()
        finally:
            process.kill()
            process.wait()


async def void(job: tarry.AsyncJob[Any]) -> None: ...
