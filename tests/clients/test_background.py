"""Threads and tasks in the background go on after any error, also one that nobody expects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tarry.clients.awaited import wait_connections as awaited
from tarry.clients.blocking import wait_connections as blocking
from tarry.connections import sentinels
from tarry.connections.awaited import Server as AsyncServer
from tarry.connections.blocking import Server
from tarry.connections.faults import ConnectionLost, TryLater
from tarry.connections.sentinels import Sentinels
from tarry.connections.tracking import TokenWait
from tarry.worker import task_schedules
from tarry.worker.outage import Outage
from tarry.worker.task_schedules import ScheduleDeclarer
from until import until

BUG = "a bug of the driver"
KEYS = (b"tarry:{a}:wake",)


def failing_once(function: Callable[..., Any]) -> Callable[..., Any]:
    calls: list[None] = []

    def call(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise TypeError(BUG)
        return function(*given, **named)

    return call


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
    until(lambda: isinstance(sentinel.fault, ConnectionLost), "it failed")
    assert BUG in caplog.text
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
