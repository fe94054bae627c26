"""The server restarts, forgets its scripts, loads, is a replica, is busy, is full, freezes, or hangs up on everybody."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import servers
import tarry
from faults.ways import KINDS, Way
from tarry.links.embedded import wire
from tarry.links.embedded.launch import Running

HANG_S = 30


@pytest.fixture
def server(own_server: Callable[..., Running]) -> Running:
    """One that keeps what it has over a restart."""
    return own_server("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as pool:
        yield pool


def until(true: Callable[[], Any]) -> None:
    for _ in wire.pauses(HANG_S):
        with contextlib.suppress(OSError):
            if true():
                return
    pytest.fail("it did not come to pass")


def blocked(server: Running) -> bool:
    told = server.ask("INFO", "clients")
    assert isinstance(told, bytes)
    return "blocked_clients:0" not in told.decode()


# ── restarts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_verb_goes_on_after_a_restart(server: Running, kind: str, ways: Any) -> None:
    """Connections are dead and scripts unknown: the call that finds out is made again."""
    way = ways(kind, server.url)
    topic = way.topic("a")
    way.do(topic, "add_many", ["tea", "milk", "salt"])
    server.restart()
    tea = way.do(topic, "pop")
    server.restart()
    way.do(topic, "finish", tea)
    server.restart()
    assert way.do(topic, "add", "rice").created
    server.restart()
    milk, salt = way.do(topic, "pop_many", 2)
    server.restart()
    way.do(topic, "touch", milk)
    server.restart()
    way.do(topic, "release", milk, "1h")
    server.restart()
    way.do(topic, "bury", salt, "wet")
    server.restart()
    stats = way.do(topic, "stats")
    assert (stats.ready, stats.delayed, stats.reserved, stats.dead, stats.finished) == (1, 1, 0, 1, 1)
    assert way.do(topic, "check").ok


def test_ten_idle_connections_that_died_cost_one_try(server: Running, threads: ThreadPoolExecutor) -> None:
    with tarry.Client(server.url) as client:
        topic = client.topic("a")
        meet = threading.Barrier(10)

        def at_once(n: int) -> None:
            meet.wait(HANG_S)
            topic.add(n)

        while (
            len(next(iter(client.engine.runner._servers.values()))._free if client.engine.runner._servers else []) < 10
        ):
            list(threads.map(at_once, range(10)))
        before = topic.stats().ready
        server.restart()
        began = time.monotonic()
        topic.add("after")
        assert time.monotonic() - began < 5  # a hang guard: ten tries with back-off are longer
        list(threads.map(at_once, range(10)))
        assert topic.stats().ready == before + 11


def test_who_waits_survives_a_restart(server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor) -> None:
    way = ways(kind, server.url, imaginary=False)
    pop = threads.submit(way.do, way.topic("a"), "pop", wait=None)
    until(lambda: blocked(server))
    server.kill()
    server.restart()
    with tarry.Client(server.url) as other:
        other.topic("a").add("tea", delay=0.02)
        assert pop.result(HANG_S).body == "tea"


def test_scripts_that_are_forgotten_again_and_again_are_sent_again(server: Running, kind: str, ways: Any) -> None:
    way = ways(kind, server.url)
    topic = way.topic("a")
    for n in range(5):
        server.ask("SCRIPT", "FLUSH")
        assert way.do(topic, "add", n, id=str(n)).created
        server.ask("SCRIPT", "FLUSH")
        job = way.do(topic, "pop")
        server.ask("SCRIPT", "FLUSH")
        way.do(topic, "finish", job)
    assert way.do(topic, "stats").finished == 5


def test_calls_of_one_turn_find_their_scripts_forgotten(server: Running) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(server.url) as client:
            topic = client.topic("a")
            for n in range(10):
                server.ask("SCRIPT", "FLUSH")
                adds = [topic.add([n, i], id=f"{n}-{i}") for i in range(50)]
                answers = await asyncio.gather(*adds, topic.stats(), topic.get("nobody"), topic.add_many([1, 2, 3]))
                assert [added.id for added in answers[:50]] == [f"{n}-{i}" for i in range(50)]
                assert answers[51] is None
                jobs = await topic.pop_many(100)
                assert len(jobs) == 53
                server.ask("SCRIPT", "FLUSH")
                await asyncio.gather(*[topic.finish(job) for job in jobs])
            assert (await topic.stats()).finished == 530

    asyncio.run(story())


# ── refused for now ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_still_loads_is_waited_for(
    own_server: Callable[..., Running], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    slow = ("--key-load-delay", "0", "--loading-process-events-interval-bytes", "1024", "--aof-use-rdb-preamble", "no")
    server = own_server("--appendonly", "yes", *slow)
    with tarry.Client(server.url) as before:
        for n in range(150):
            before.topic("a").add("x" * 300, id=f"job-{n}")
    server._command[server._command.index("--key-load-delay") + 1] = "1000"
    again = threads.submit(server.restart)
    until(lambda: (not again.done() and wire.state(server.address) == "loading") or again.done())
    way = ways(kind, server.url)  # its very first question meets LOADING
    assert way.do(way.topic("a"), "stats").ready == 150
    again.result(HANG_S)


@pytest.fixture
def busy(own_server: Callable[..., Running], threads: ThreadPoolExecutor) -> Callable[[], Running]:
    """A server whose script does not end, until somebody kills it."""
    server = own_server("--busy-reply-threshold", "20")

    def begin() -> Running:
        def loop() -> None:
            with contextlib.suppress(wire.Refused), wire.Line.to(server.address) as line:
                line._link.settimeout(HANG_S)
                line.ask("EVAL", "while true do end", "0")

        def is_busy() -> bool:
            try:
                server.ask("GET", "a")
            except wire.Refused as refusal:
                return "BUSY" in str(refusal)
            return False

        threads.submit(loop)
        until(is_busy)
        return server

    return begin


@pytest.mark.parametrize("first", [True, False])
def test_a_busy_server_is_waited_for(
    first: bool, busy: Callable[[], Running], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    server = busy()
    if not first:
        server.ask("SCRIPT", "KILL")
    way = ways(kind, server.url)
    if not first:
        way.do(way.topic("a"), "stats")
        busy()
    add = threads.submit(way.do, way.topic("a"), "add", "tea")
    threading.Event().wait(0.15)
    assert not add.done()
    server.ask("SCRIPT", "KILL")
    assert add.result(HANG_S).created


def test_a_server_that_stays_busy_is_told_of(busy: Callable[[], Running], kind: str, ways: Any) -> None:
    server = busy()
    way = ways(kind, server.url, patience=0.15)
    with pytest.raises(tarry.Unavailable, match="BUSY"):
        way.do(way.topic("a"), "stats")
    server.ask("SCRIPT", "KILL")
    assert way.do(way.topic("a"), "stats").ready == 0


def replica_story(url: Callable[[], str], ask: Callable[..., Any], kind: str, threads: ThreadPoolExecutor) -> None:
    way = Way(kind, url(), None, patience=20)
    try:
        topic = way.topic("a")
        way.do(topic, "add", "tea")
        ask("REPLICAOF", "127.0.0.1", "1")
        add = threads.submit(way.do, topic, "add", "milk")
        threading.Event().wait(0.1)
        assert not add.done()
        ask("REPLICAOF", "NO", "ONE")
        assert add.result(HANG_S).created
        assert way.do(topic, "stats").ready == 2
        assert [way.do(topic, "pop").body for _ in range(2)] == ["tea", "milk"]
    finally:
        way.close()


def test_a_master_that_became_a_replica_is_waited_for(server: Running, kind: str, threads: ThreadPoolExecutor) -> None:
    replica_story(lambda: server.url, server.ask, kind, threads)


@pytest.mark.otherserver
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["redis6", "redis7"])
def test_an_older_master_that_became_a_replica_is_waited_for(
    which: str, kind: str, threads: ThreadPoolExecutor
) -> None:
    """Redis 6.2 wraps what a command inside a script says; it is understood all the same."""
    with servers.short_folder() as folder:
        binary = servers.redis6_binary() if which == "redis6" else servers.redis7_binary(folder)
        with servers.server(binary) as server:
            replica_story(lambda: server.url, server.ask, kind, threads)


@pytest.mark.otherserver
@pytest.mark.parametrize("which", ["redis6", "redis7", "valkey"])
def test_a_full_memory_is_told_in_words(which: str) -> None:
    with servers.short_folder() as folder:
        binary = {
            "redis6": servers.redis6_binary,
            "redis7": lambda: servers.redis7_binary(folder),
            "valkey": servers.valkey_binary,
        }[which]()
        with servers.server(binary) as server, tarry.Client(server.url) as client:
            topic = client.topic("a")
            topic.add_many(range(10))
            (job, *rest) = topic.pop_many(5)
            server.ask("CONFIG", "SET", "maxmemory", "1")
            with pytest.raises(tarry.Unavailable, match="memory is full"):
                topic.add("tea")
            topic.finish(job)
            topic.bury(rest[0])
            topic.release(rest[1], 0)
            topic.delete(rest[2].id)
            assert topic.pop() is not None
            server.ask("CONFIG", "SET", "maxmemory", "0")
            assert topic.add("tea").created
            assert topic.check().ok


# ── hanging up ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_when_everybody_is_hung_up_on_they_come_back(
    server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url)
    topic = way.topic("a")
    over = threading.Event()

    def hang_up() -> None:
        while not over.wait(0.005):
            server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    hanging = threads.submit(hang_up)
    try:
        for n in range(20):
            assert way.do(topic, "add", n, id=str(n)).created
    finally:
        over.set()
        hanging.result(HANG_S)
    stats = way.do(topic, "stats")
    assert (stats.ready, way.do(topic, "check").ok) == (20, True)


def test_a_server_with_too_many_clients_is_asked_again(
    own_server: Callable[..., Running], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    server = own_server(maxclients=4)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(wire.Line.to(server.address)) for _ in range(4)]
        for line in lines:
            line.ask("PING")
        way = ways(kind, server.url, patience=0.15)
        with pytest.raises(tarry.Unavailable):
            way.do(way.topic("a"), "add", "tea")
        lines[0].close()
        lines[1].close()
        patient = ways(kind, server.url, patience=20)
        assert patient.do(patient.topic("a"), "add", "tea").created


def test_who_waits_without_room_for_a_waiting_connection_gets_jobs_all_the_same(
    own_server: Callable[..., Running], kind: str, ways: Any
) -> None:
    server = own_server(maxclients=3)
    way = ways(kind, server.url, imaginary=False)
    topic = way.topic("a")
    way.do(topic, "add", "tea", delay=0.2)
    with wire.Line.to(server.address) as one, wire.Line.to(server.address) as two:
        one.ask("PING")
        two.ask("PING")
        assert way.do(topic, "pop", wait=20).body == "tea"


# ── freezing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_freezes_for_a_moment_is_waited_for(
    server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url)
    way.do(way.topic("a"), "stats")
    server.freeze()
    add = threads.submit(way.do, way.topic("a"), "add", "tea", id="a")
    threading.Event().wait(0.1)
    assert not add.done()
    server.thaw()
    assert add.result(HANG_S).created
    assert way.do(way.topic("a"), "stats").repeated == 0


def test_a_server_frozen_for_longer_than_an_answer_may_take_does_nothing_twice(
    server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", patience=HANG_S)
    topic = way.topic("a")
    way.do(topic, "stats")
    server.freeze()
    add = threads.submit(way.do, topic, "add", "tea", id="a")
    threading.Event().wait(0.4)
    assert not add.done()
    server.thaw()
    assert add.result(HANG_S).created
    assert way.do(topic, "stats").ready == 1
    assert way.do(topic, "pop").attempt == 1


def test_a_frozen_server_is_given_up_when_patience_ends(server: Running, kind: str, ways: Any) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.15)
    topic = way.topic("a")
    way.do(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            way.do(topic, "add", "tea")
        with pytest.raises(tarry.Unavailable):
            way.do(topic, "pop", wait=None)
        with pytest.raises(tarry.Unavailable):
            way.do(topic, "add_many", ["x" * 100_000] * 50)  # more than the line takes while nobody reads
    finally:
        server.thaw()
    assert way.do(topic, "check").ok


def test_who_waits_while_the_server_freezes_is_told_or_served(
    server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    """The waiting connection has no time-out of its own; the wait ends all the same."""
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = way.topic("a")
    pop = threads.submit(way.do, topic, "pop", wait=0.5)
    until(lambda: blocked(server))
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            pop.result(HANG_S)
    finally:
        server.thaw()
    way.do(topic, "add", "tea")
    assert way.do(topic, "pop", wait=5).body == "tea"


def test_a_wait_that_begins_while_the_server_freezes_ends(
    server: Running, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = way.topic("a")
    way.do(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            threads.submit(way.do, topic, "pop", wait=None).result(HANG_S)
    finally:
        server.thaw()
    assert way.do(topic, "pop", wait=0.01) is None
