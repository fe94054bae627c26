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
from connections.strange_server import strange_server
from faults.any_client import KINDS, AnyClient
from faults.blocked_clients import blocked
from faults.wait_until import until
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S


@pytest.mark.slow
def test_a_call_waits_for_a_loading_server(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    slow = ("--key-load-delay", "0", "--loading-process-events-interval-bytes", "1024", "--aof-use-rdb-preamble", "no")
    server = own_server("--appendonly", "yes", *slow)
    with tarry.Client(server.url) as before:
        for n in range(150):
            before.topic("a").add("x" * 300, id=f"job-{n}")
    server._command[server._command.index("--key-load-delay") + 1] = "1000"
    again = threads.submit(server.restart)
    until(lambda: (not again.done() and plain_client.read_state(server.address) == "loading") or again.done())
    any_client = make_client(kind, server.url)  # its very first question meets LOADING
    assert any_client.call(any_client.topic("a"), "stats").ready == 150
    again.result(LONGEST_S)


@pytest.fixture
def busy(own_server: Callable[..., ServerProcess], threads: ThreadPoolExecutor) -> Callable[[], ServerProcess]:
    """A server whose script does not end, until somebody kills it."""
    server = own_server("--busy-reply-threshold", "20")

    def begin() -> ServerProcess:
        def loop() -> None:
            with (
                contextlib.suppress(plain_client.ErrorReply),
                plain_client.RespConnection.connect(server.address) as line,
            ):
                line._socket.settimeout(LONGEST_S)
                line.call("EVAL", "while true do end", "0")

        def is_busy() -> bool:
            try:
                server.ask("GET", "a")
            except plain_client.ErrorReply as refusal:
                return "BUSY" in str(refusal)
            return False

        threads.submit(loop)
        until(is_busy)
        return server

    return begin


@pytest.mark.parametrize("first", [True, False])
def test_a_call_waits_for_a_busy_server(
    first: bool, busy: Callable[[], ServerProcess], kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    server = busy()
    if not first:
        server.ask("SCRIPT", "KILL")
    any_client = make_client(kind, server.url)
    if not first:
        any_client.call(any_client.topic("a"), "stats")
        busy()
    add = threads.submit(any_client.call, any_client.topic("a"), "add", "tea")
    threading.Event().wait(0.15)
    assert not add.done()
    server.ask("SCRIPT", "KILL")
    assert add.result(LONGEST_S).is_new


def test_a_server_that_stays_busy_raises_unavailable(
    busy: Callable[[], ServerProcess], kind: str, make_client: Any
) -> None:
    server = busy()
    for patience in (0.15, 1.5, 15):  # on a busy machine the server's own answer to the first try may come too late
        any_client = make_client(kind, server.url, patience=patience)
        with pytest.raises(tarry.Unavailable) as told:
            any_client.call(any_client.topic("a"), "stats")
        if "BUSY" in str(told.value):
            break
    assert "BUSY" in str(told.value)
    server.ask("SCRIPT", "KILL")
    assert any_client.call(any_client.topic("a"), "stats").ready == 0


def test_a_refusal_is_told_also_when_the_last_try_has_no_answer(kind: str) -> None:
    """The last try of a client has 20 ms: a server behind a slow line, or on a busy machine, needs longer to refuse again."""
    refusal = b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
    for patience in (0.2, 2, 20):  # the first try needs its answer
        asked: list[bytes] = []

        def answer(words: list[bytes], asked: list[bytes] = asked) -> bytes:
            asked.append(words[0])
            return refusal if asked.count(b"INFO") == 1 else b""  # it stands at the beginning of each connection

        with strange_server(answer) as url:
            any_client = AnyClient(kind, url, None, patience=patience)
            with contextlib.closing(any_client), pytest.raises(tarry.Unavailable) as told:
                any_client.call(any_client.topic("a"), "stats")
        if "BUSY" in str(told.value):
            break
    assert "a script keeps it busy" in str(told.value)


def replica_story(url: Callable[[], str], ask: Callable[..., Any], kind: str, threads: ThreadPoolExecutor) -> None:
    any_client = AnyClient(kind, url(), None, patience=20)
    try:
        topic = any_client.topic("a")
        any_client.call(topic, "add", "tea")
        ask("REPLICAOF", "127.0.0.1", "1")
        add = threads.submit(any_client.call, topic, "add", "milk")
        threading.Event().wait(0.1)
        assert not add.done()
        ask("REPLICAOF", "NO", "ONE")
        assert add.result(LONGEST_S).is_new
        assert any_client.call(topic, "stats").ready == 2
        assert [any_client.call(topic, "pop").body for _ in range(2)] == ["tea", "milk"]
    finally:
        any_client.close()


def test_a_call_waits_for_a_master_that_became_a_replica(
    server: ServerProcess, kind: str, threads: ThreadPoolExecutor
) -> None:
    replica_story(lambda: server.url, server.ask, kind, threads)


def test_a_waiting_pop_waits_on_when_its_master_becomes_a_replica(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url, imaginary=False)
    pop = threads.submit(any_client.call, any_client.topic("a"), "pop", wait=None)
    until(lambda: blocked(server))
    server.ask("REPLICAOF", "127.0.0.1", "1")
    server.ask("REPLICAOF", "NO", "ONE")
    with tarry.Client(server.url) as other:
        other.topic("a").add("tea")
    assert pop.result(LONGEST_S).body == "tea"


@pytest.mark.otherserver
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["redis6", "redis7", "redis8"])
def test_a_call_waits_for_a_redis_master_that_became_a_replica(
    which: str, kind: str, threads: ThreadPoolExecutor
) -> None:
    """Redis 6.2 wraps what a command inside a script says; it is understood all the same."""
    with servers.short_folder() as folder, servers.server(servers.binary_of(which, folder)) as server:
        replica_story(lambda: server.url, server.ask, kind, threads)
