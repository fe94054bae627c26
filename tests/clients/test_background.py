"""Threads and tasks in the background go on after any error, also one that nobody expects."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from faults.failing_once import BUG, failing_once
from tarry.clients.awaited import wait_connections as awaited
from tarry.clients.awaited.background_loop import BackgroundLoop
from tarry.clients.awaited.concurrency import Background as AsyncBackground
from tarry.clients.awaited.concurrency import BackgroundCalls
from tarry.clients.blocking import wait_connections as blocking
from tarry.clients.blocking.background_loop import BackgroundLoop as BlockingLoop
from tarry.clients.blocking.concurrency import Background
from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.channels import ChannelTable
from tarry.connections import background, sentinels
from tarry.connections.awaited import Server as AsyncServer
from tarry.connections.background import BackgroundFailures
from tarry.connections.blocking import Server
from tarry.connections.clock import now
from tarry.connections.faults import ConnectionLost, TryLater
from tarry.connections.sentinels import Sentinels
from tarry.connections.tracking import TokenWait
from tarry.worker import task_schedules
from tarry.worker.outage import Outage
from tarry.worker.task_schedules import ScheduleDeclarer
from until import until

KEYS = (b"tarry:{a}:wake",)


def test_waits_end_when_a_tracking_connection_fails(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocking, "read_push_or_reply", failing_once(blocking.read_push_or_reply))
    tracking = blocking.TrackingConnection(Server(valkey_url), cluster=False)
    ended = [threading.Event(), threading.Event()]
    first, second = (TokenWait(KEYS, event.set) for event in ended)
    tracking.submit(first)
    assert ended[0].wait(30), "it ends, so that its client asks again"
    assert isinstance(first.fault, ConnectionLost)
    assert BUG in caplog.text
    server.rpush(KEYS[0], b"1")
    tracking.submit(second)
    assert ended[1].wait(30)
    assert (second.fault, second.token) == (None, KEYS[0])
    tracking.close()


@pytest.mark.anyio
async def test_waits_end_when_a_tracking_connection_of_an_awaited_client_fails(
    valkey_url: str, server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read = awaited.read_push_or_reply
    fail = failing_once(lambda: None)

    async def reading(connection: Any) -> Any:
        fail()
        return await read(connection)

    monkeypatch.setattr(awaited, "read_push_or_reply", reading)
    tracking = awaited.TrackingConnection(AsyncServer(valkey_url), cluster=False)
    ended = [asyncio.Event(), asyncio.Event()]
    first, second = (TokenWait(KEYS, event.set) for event in ended)
    async with asyncio.timeout(30):
        tracking.submit(first)
        await ended[0].wait()
        assert isinstance(first.fault, ConnectionLost)
        assert BUG in caplog.text
        server.rpush(KEYS[0], b"1")
        tracking.submit(second)
        await ended[1].wait()
        assert (second.fault, second.token) == (None, KEYS[0])
        await tracking.close()


class Client:
    """A client behind Sentinels."""

    def master_changed(self) -> None: ...


def test_a_sentinel_is_asked_again_after_any_error(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its thread would be started only once."""

    def read(_: Any) -> Any:
        raise TryLater("no Sentinel")

    monkeypatch.setattr(sentinels, "read_push_or_reply", failing_once(sentinels.read_push_or_reply))
    group, client = Sentinels("shop", [valkey_url], read, lambda faults: faults[0]), Client()
    group.join(client)
    [sentinel] = group._sentinels
    sentinel.ask()
    until(lambda: BUG in caplog.text, "it failed")
    until(lambda: sentinel.fault is not None and BUG not in str(sentinel.fault), "it was asked again")
    group.leave(client)


@pytest.mark.anyio
async def test_schedules_are_declared_again_after_any_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    declared = asyncio.Event()
    fail = failing_once(declared.set)

    async def declare(_: ScheduleDeclarer) -> bool:
        fail()
        return True

    monkeypatch.setattr(ScheduleDeclarer, "_declare", declare)
    monkeypatch.setattr(task_schedules, "RETRY_S", 0)
    task = asyncio.ensure_future(ScheduleDeclarer([], [], Outage()).run(declared=False))
    async with asyncio.timeout(30):
        await declared.wait()
    assert BUG in caplog.text
    task.cancel()
    await asyncio.wait({task})


# ── what runs a thread or a task ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def seconds() -> list[float]:
    """The imaginary time, in seconds."""
    return [1000.0]


@pytest.fixture
def noted(seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> BackgroundFailures:
    """The failures of this process, in imaginary time."""
    found = BackgroundFailures(lambda: seconds[0])
    monkeypatch.setattr(background, "failures", found)
    return found


def test_ten_failures_within_a_minute_make_a_process_unfit(
    noted: BackgroundFailures, seconds: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    end_listening = noted.listen(lambda work, unfit: said.append(unfit))
    for _ in range(10):
        seconds[0] += 7
        noted.note("slow", TypeError(BUG))
    assert said == [""] * 10, "nine of them within a minute"
    for n in range(9):
        noted.note(f"other {n}", TypeError(BUG))
    assert not any(said), "each kind of work is counted for itself"
    noted.note("slow", TypeError(BUG))
    assert said[-1].startswith(f"slow failed 10 times within a minute, at last by TypeError: {BUG}.")
    assert (noted.counts["slow"], noted.counts["other 0"]) == (11, 1)
    for _ in range(2):
        end_listening()
    noted.note("slow", TypeError(BUG))
    assert len(said) == 20


def test_a_failure_is_logged_with_its_traceback_and_later_once_a_minute(
    noted: BackgroundFailures, seconds: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise TypeError(BUG)
    except TypeError as fault:
        noted.note("work", fault)
    [line] = caplog.records
    assert line.getMessage() == "✗ work failed in an unexpected way."
    assert "Traceback" in caplog.text
    assert line.__dict__["tarry"] == {"work": "work", "failures": 1}
    for _ in range(9):
        noted.note("work", TypeError(BUG))
    assert len(caplog.records) == 11, "the last line says that the process is unfit"
    noted.note("work", TypeError(BUG))
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 11
    seconds[0] += 61
    noted.note("work", TypeError(BUG))
    assert len([one for one in caplog.records if one.levelname == "ERROR"]) == 12


@pytest.mark.parametrize("error", [TypeError, SystemExit, asyncio.CancelledError])
def test_a_thread_runs_again_after_any_error_with_a_back_off(
    noted: BackgroundFailures, seconds: list[float], error: type[BaseException]
) -> None:
    pauses: list[float] = []

    def run() -> None:
        if len(pauses) < 3:
            raise error(BUG)

    background.supervise("work", run, pauses.append)
    assert pauses == [0.02, 0.04, 0.08]
    assert noted.counts == {"work": 3}

    def run_long() -> None:
        seconds[0] += 61
        if len(pauses) < 5:
            raise error(BUG)

    background.supervise("work", run_long, pauses.append)
    assert pauses[3:] == [0.02, 0.02], "it had worked for a minute"


def test_a_thread_that_is_told_to_end_in_its_back_off_ends(noted: BackgroundFailures) -> None:
    over = threading.Event()

    def run() -> None:
        over.set()
        raise TypeError(BUG)

    background.start_thread("work", run, over.wait).join()
    assert noted.counts == {"work": 1}


@pytest.mark.anyio
async def test_a_task_runs_again_also_after_a_cancellation_that_was_not_its_own(noted: BackgroundFailures) -> None:
    faults: list[BaseException] = [TypeError(BUG), asyncio.CancelledError()]
    runs = asyncio.Event()

    async def run() -> None:
        if faults:
            raise faults.pop()
        runs.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(background.supervise_task("work", run))
    async with asyncio.timeout(30):
        await runs.wait()
        assert noted.counts == {"work": 2}
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()


@pytest.mark.anyio
async def test_the_error_of_a_task_that_nobody_awaits_is_noted(noted: BackgroundFailures) -> None:
    async def fail() -> None:
        raise TypeError(BUG)

    task = asyncio.ensure_future(fail())
    noted.watch_task("work", task)
    await asyncio.wait({task})
    await asyncio.sleep(0)
    assert noted.counts == {"work": 1}
    with noted.noted("work"):
        raise TypeError(BUG)
    assert noted.counts == {"work": 2}


def test_work_on_one_job_makes_no_process_unfit(noted: BackgroundFailures) -> None:
    said: list[str] = []
    noted.listen(lambda work, unfit: said.append(unfit))
    for _ in range(20):
        noted.note_once("work", TypeError(BUG))
    assert said == [""] * 20


def test_a_forked_child_has_failed_in_nothing() -> None:
    background.failures.note("work", TypeError(BUG))
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writes, repr(background.failures.counts).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reads, 100) == b"{}"
    for end in (reads, writes):
        os.close(end)


# ── the threads of a client ──────────────────────────────────────────────────────────────────────────────────────────


def counted_since(work: str) -> Callable[[], int]:
    before = background.failures.counts.get(work, 0)
    return lambda: background.failures.counts.get(work, 0) - before


def test_events_are_heard_after_any_error_of_the_thread_that_calls_handlers(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard, count = list[Any](), counted_since("tarry-events")

    def handle(event: Any) -> None:
        heard.append(event.key)
        if len(heard) == 1:
            raise SystemExit  # unlike an error, the end of a thread is printed nowhere

    with tarry.Client(valkey_url, namespace=namespace) as client:
        cache = client.map_cache(f"{namespace}:prices")
        with cache.listen(handle, "created"):
            for n in range(2):
                cache.put(f"k{n}", n)
            until(lambda: heard == ["k0", "k1"], "the second event")
    assert count() == 1


def test_a_subscription_hears_after_an_error_of_what_tells_of_the_lost_connection(
    valkey_url: str, namespace: str, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, count = list[bytes](), counted_since("tarry-subscriptions")
    monkeypatch.setattr(ChannelTable, "connection_lost", failing_once(ChannelTable.connection_lost))
    with tarry.Client(valkey_url, namespace=namespace) as client:
        pubsub = client.engine.shared_part(PubSub)
        pubsub.subscribe(b"k", (b"c-%s" % namespace.encode(),), lambda _, message: heard.append(message))
        server.client_kill_filter(_type="pubsub")
        until(lambda: server.publish(f"c-{namespace}", "x") and b"x" in heard, "it listens again")
    assert count() == 1


class Loop(BlockingLoop):
    """Fails at its first work."""

    NAME = "tarry-loop"

    def __init__(self) -> None:
        super().__init__()
        self.worked = threading.Event()
        self.fail = failing_once(self.worked.set)

    def begin(self) -> None:
        with self._mutex:
            self._start()

    def _work(self) -> float:
        self.fail()
        return now() + 3600


class AsyncLoop(BackgroundLoop):
    """The same in a task."""

    NAME = "tarry-loop"

    def __init__(self) -> None:
        super().__init__()
        self.worked = asyncio.Event()
        self.fail = failing_once(self.worked.set)

    def begin(self) -> None:
        self._start()

    async def _work(self) -> float:
        self.fail()
        return now() + 3600


def test_the_work_of_a_client_goes_on_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    """Locks are renewed by it, and duties are done."""
    loop, count = Loop(), counted_since("tarry-loop")
    loop.begin()
    assert loop.worked.wait(30)
    loop.close()
    assert (count(), BUG in caplog.text) == (1, True)


@pytest.mark.anyio
async def test_the_work_of_an_awaited_client_goes_on_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    loop, count = AsyncLoop(), counted_since("tarry-loop")
    loop.begin()
    async with asyncio.timeout(30):
        await loop.worked.wait()
    await loop.close()
    assert (count(), BUG in caplog.text) == (1, True)


def test_a_thread_of_a_client_begins_again_after_any_error() -> None:
    """A handler of a queue's elements is called in one."""
    worked, count = threading.Event(), counted_since("tarry-queue")
    thread = Background("tarry-queue", failing_once(worked.set))
    assert worked.wait(30)
    thread.join(30)
    assert (thread.ended, count()) == (True, 1)


@pytest.mark.anyio
async def test_a_task_of_an_awaited_client_begins_again_after_any_error() -> None:
    worked, count = asyncio.Event(), counted_since("tarry-queue")
    fail = failing_once(worked.set)

    async def work() -> None:
        fail()

    task = AsyncBackground("tarry-queue", work)
    async with asyncio.timeout(30):
        await worked.wait()
        await task.join(30)
    assert (task.ended, count()) == (True, 1)


@pytest.mark.anyio
async def test_the_error_of_an_operation_in_the_background_of_a_client_is_noted() -> None:
    async def fail() -> None:
        raise TypeError(BUG)

    calls, count = BackgroundCalls("tarry-locks"), counted_since("tarry-locks")
    calls.start(fail())
    await calls.join(30)
    assert count() == 1
