"""Servers that restart, forget scripts, load, become replicas or hang up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import servers
import tarry
from faults.patience import HANG_S, blocked, until
from tarry.connections.embedded import resp
from tarry.connections.embedded.process import ServerProcess


@pytest.mark.slow
def test_every_verb_goes_on_after_a_restart(server: ServerProcess, kind: str, ways: Any) -> None:
    """Connections are dead and scripts unknown: the call that finds out is made again."""
    way = ways(kind, server.url)
    topic = way.topic("a")
    way.call(topic, "add_many", ["tea", "milk", "salt"])
    server.restart()
    tea = way.call(topic, "pop")
    server.restart()
    way.call(topic, "finish", tea)
    server.restart()
    assert way.call(topic, "add", "rice").created
    server.restart()
    milk, salt = way.call(topic, "pop_many", 2)
    server.restart()
    way.call(topic, "touch", milk)
    server.restart()
    way.call(topic, "release", milk, "1h")
    server.restart()
    way.call(topic, "bury", salt, "wet")
    server.restart()
    stats = way.call(topic, "stats")
    assert (stats.ready, stats.delayed, stats.reserved, stats.dead, stats.finished) == (1, 1, 0, 1, 1)
    assert way.call(topic, "check").ok


def test_ten_idle_connections_that_died_cost_one_try(server: ServerProcess, threads: ThreadPoolExecutor) -> None:
    with tarry.Client(server.url) as client:
        topic = client.topic("a")
        meet = threading.Barrier(10)

        def at_once(n: int) -> None:
            meet.wait(HANG_S)
            topic.add(n)

        while (
            len(next(iter(client.engine.runner._servers.values()))._idle if client.engine.runner._servers else []) < 10
        ):
            list(threads.map(at_once, range(10)))
        before = topic.stats().ready
        server.restart()
        began = time.monotonic()
        topic.add("after")
        assert time.monotonic() - began < 5  # a hang guard: ten tries with back-off are longer
        list(threads.map(at_once, range(10)))
        assert topic.stats().ready == before + 11


def test_who_waits_survives_a_restart(server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor) -> None:
    way = ways(kind, server.url, imaginary=False)
    pop = threads.submit(way.call, way.topic("a"), "pop", wait=None)
    until(lambda: blocked(server))
    server.kill()
    server.restart()
    with tarry.Client(server.url) as other:
        other.topic("a").add("tea", delay=0.02)
        assert pop.result(HANG_S).body == "tea"


def test_scripts_that_are_forgotten_again_and_again_are_sent_again(server: ServerProcess, kind: str, ways: Any) -> None:
    way = ways(kind, server.url)
    topic = way.topic("a")
    for n in range(5):
        server.ask("SCRIPT", "FLUSH")
        assert way.call(topic, "add", n, id=str(n)).created
        server.ask("SCRIPT", "FLUSH")
        job = way.call(topic, "pop")
        server.ask("SCRIPT", "FLUSH")
        way.call(topic, "finish", job)
    assert way.call(topic, "stats").finished == 5


def test_calls_of_one_turn_find_their_scripts_forgotten(server: ServerProcess) -> None:
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


@pytest.mark.otherserver
@pytest.mark.parametrize("which", ["redis6", "redis7", "redis8", "valkey"])
def test_a_full_memory_is_told_in_words(which: str) -> None:
    with (
        servers.short_folder() as folder,
        servers.server(servers.binary_of(which, folder)) as server,
        tarry.Client(server.url) as client,
    ):
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


def test_when_everybody_is_hung_up_on_they_come_back(
    server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url)
    topic = way.topic("a")
    kills, pause = threading.Semaphore(0), threading.Event()

    def hang_up() -> None:
        for _ in range(20 * 5):
            kills.acquire()
            pause.wait(0.005)
            server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    hanging = threads.submit(hang_up)
    for n in range(20):
        kills.release(5)  # so many for each, or a slow machine would never get through
        assert way.call(topic, "add", n, id=str(n)).created
    hanging.result(HANG_S)
    stats = way.call(topic, "stats")
    assert (stats.ready, way.call(topic, "check").ok) == (20, True)


def test_a_server_with_too_many_clients_is_asked_again(
    own_server: Callable[..., ServerProcess], kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    server = own_server(maxclients=4)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(resp.RespConnection.connect(server.address)) for _ in range(4)]
        for line in lines:
            line.call("PING")
        way = ways(kind, server.url, patience=0.15)
        with pytest.raises(tarry.Unavailable):
            way.call(way.topic("a"), "add", "tea")
        lines[0].close()
        lines[1].close()
        patient = ways(kind, server.url, patience=20)
        assert patient.call(patient.topic("a"), "add", "tea").created


def test_who_waits_without_room_for_a_waiting_connection_gets_jobs_all_the_same(
    own_server: Callable[..., ServerProcess], kind: str, ways: Any
) -> None:
    server = own_server(maxclients=3)
    way = ways(kind, server.url, imaginary=False)
    topic = way.topic("a")
    way.call(topic, "add", "tea", delay=0.2)
    with resp.RespConnection.connect(server.address) as one, resp.RespConnection.connect(server.address) as two:
        one.call("PING")
        two.call("PING")
        assert way.call(topic, "pop", wait=20).body == "tea"
