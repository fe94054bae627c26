"""Servers that still load, are busy with a script, or became replicas, are waited for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import servers
import tarry
from faults.both_clients import KINDS, AnyClient
from faults.patience import HANG_S, until
from tarry.connections.embedded import resp
from tarry.connections.embedded.process import ServerProcess


def test_a_server_that_still_loads_is_waited_for(
    own_server: Callable[..., ServerProcess], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    slow = ("--key-load-delay", "0", "--loading-process-events-interval-bytes", "1024", "--aof-use-rdb-preamble", "no")
    server = own_server("--appendonly", "yes", *slow)
    with tarry.Client(server.url) as before:
        for n in range(150):
            before.topic("a").add("x" * 300, id=f"job-{n}")
    server._command[server._command.index("--key-load-delay") + 1] = "1000"
    again = threads.submit(server.restart)
    until(lambda: (not again.done() and resp.read_state(server.address) == "loading") or again.done())
    way = ways(kind, server.url)  # its very first question meets LOADING
    assert way.call(way.topic("a"), "stats").ready == 150
    again.result(HANG_S)


@pytest.fixture
def busy(own_server: Callable[..., ServerProcess], threads: ThreadPoolExecutor) -> Callable[[], ServerProcess]:
    """A server whose script does not end, until somebody kills it."""
    server = own_server("--busy-reply-threshold", "20")

    def begin() -> ServerProcess:
        def loop() -> None:
            with contextlib.suppress(resp.ErrorReply), resp.RespConnection.connect(server.address) as line:
                line._socket.settimeout(HANG_S)
                line.call("EVAL", "while true do end", "0")

        def is_busy() -> bool:
            try:
                server.ask("GET", "a")
            except resp.ErrorReply as refusal:
                return "BUSY" in str(refusal)
            return False

        threads.submit(loop)
        until(is_busy)
        return server

    return begin


@pytest.mark.parametrize("first", [True, False])
def test_a_busy_server_is_waited_for(
    first: bool, busy: Callable[[], ServerProcess], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    server = busy()
    if not first:
        server.ask("SCRIPT", "KILL")
    way = ways(kind, server.url)
    if not first:
        way.call(way.topic("a"), "stats")
        busy()
    add = threads.submit(way.call, way.topic("a"), "add", "tea")
    threading.Event().wait(0.15)
    assert not add.done()
    server.ask("SCRIPT", "KILL")
    assert add.result(HANG_S).created


def test_a_server_that_stays_busy_is_told_of(busy: Callable[[], ServerProcess], kind: str, ways: Any) -> None:
    server = busy()
    way = ways(kind, server.url, patience=0.15)
    with pytest.raises(tarry.Unavailable, match="BUSY"):
        way.call(way.topic("a"), "stats")
    server.ask("SCRIPT", "KILL")
    assert way.call(way.topic("a"), "stats").ready == 0


def replica_story(url: Callable[[], str], ask: Callable[..., Any], kind: str, threads: ThreadPoolExecutor) -> None:
    way = AnyClient(kind, url(), None, patience=20)
    try:
        topic = way.topic("a")
        way.call(topic, "add", "tea")
        ask("REPLICAOF", "127.0.0.1", "1")
        add = threads.submit(way.call, topic, "add", "milk")
        threading.Event().wait(0.1)
        assert not add.done()
        ask("REPLICAOF", "NO", "ONE")
        assert add.result(HANG_S).created
        assert way.call(topic, "stats").ready == 2
        assert [way.call(topic, "pop").body for _ in range(2)] == ["tea", "milk"]
    finally:
        way.close()


def test_a_master_that_became_a_replica_is_waited_for(
    server: ServerProcess, kind: str, threads: ThreadPoolExecutor
) -> None:
    replica_story(lambda: server.url, server.ask, kind, threads)


@pytest.mark.otherserver
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["redis6", "redis7", "redis8"])
def test_a_redis_master_that_became_a_replica_is_waited_for(which: str, kind: str, threads: ThreadPoolExecutor) -> None:
    """Redis 6.2 wraps what a command inside a script says; it is understood all the same."""
    with servers.short_folder() as folder, servers.server(servers.binary_of(which, folder)) as server:
        replica_story(lambda: server.url, server.ask, kind, threads)
