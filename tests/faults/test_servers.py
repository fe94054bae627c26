"""Servers that restart, forget scripts, load, become replicas or hang up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import servers
import tarry
from faults.wait_until import blocked, until
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.patience import RetryBudget
from until import LONGEST_S


@pytest.mark.slow
def test_every_verb_works_after_a_server_restart(server: ServerProcess, kind: str, make_client: Any) -> None:
    """Connections are dead and scripts unknown: the call that finds out is made again."""
    any_client = make_client(kind, server.url)
    topic = any_client.topic("a")
    any_client.call(topic, "add_many", ["tea", "milk", "salt"])
    server.restart()
    tea = any_client.call(topic, "pop")
    server.restart()
    any_client.call(topic, "finish", tea)
    server.restart()
    assert any_client.call(topic, "add", "rice").is_new
    server.restart()
    milk, salt = any_client.call(topic, "pop_many", 2)
    server.restart()
    any_client.call(topic, "touch", milk)
    server.restart()
    any_client.call(topic, "release", milk, delay="1h")
    server.restart()
    any_client.call(topic, "bury", salt, reason="wet")
    server.restart()
    stats = any_client.call(topic, "stats")
    assert (stats.ready, stats.delayed, stats.reserved, stats.dead, stats.finished) == (1, 1, 0, 1, 1)
    assert any_client.call(topic, "check").ok


def test_ten_dead_idle_connections_cost_one_retry(
    server: ServerProcess, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    retries, next_delay = list[int](), RetryBudget.next_delay

    def counted(budget: RetryBudget, draw: float) -> float | None:
        retries.append(budget.tries)
        return next_delay(budget, draw)

    monkeypatch.setattr(RetryBudget, "next_delay", counted)
    with tarry.Client(server.url) as client:
        topic = client.topic("a")
        meet = threading.Barrier(10)

        def at_once(n: int) -> None:
            meet.wait(LONGEST_S)
            topic.add(n)

        while (
            len(next(iter(client.engine.runner._servers.values()))._idle if client.engine.runner._servers else []) < 10
        ):
            list(threads.map(at_once, range(10)))
        before = topic.stats().ready
        server.restart()
        retries.clear()
        topic.add("after")
        assert len(retries) == 1
        list(threads.map(at_once, range(10)))
        assert topic.stats().ready == before + 11


def test_a_waiting_pop_survives_a_server_restart(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url, imaginary=False)
    pop = threads.submit(any_client.call, any_client.topic("a"), "pop", wait=None)
    until(lambda: blocked(server))
    server.kill()
    server.restart()
    with tarry.Client(server.url) as other:
        other.topic("a").add("tea", delay=0.02)
        assert pop.result(LONGEST_S).body == "tea"


def test_scripts_are_loaded_again_after_every_flush(server: ServerProcess, kind: str, make_client: Any) -> None:
    any_client = make_client(kind, server.url)
    topic = any_client.topic("a")
    for n in range(5):
        server.ask("SCRIPT", "FLUSH")
        assert any_client.call(topic, "add", n, id=str(n)).is_new
        server.ask("SCRIPT", "FLUSH")
        job = any_client.call(topic, "pop")
        server.ask("SCRIPT", "FLUSH")
        any_client.call(topic, "finish", job)
    assert any_client.call(topic, "stats").finished == 5


@pytest.mark.slow
def test_calls_of_one_loop_iteration_survive_a_script_flush(server: ServerProcess) -> None:
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
def test_a_full_memory_raises_unavailable_with_a_reason(which: str) -> None:
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
        topic.release(rest[1], delay=0)
        topic.delete(rest[2].id)
        assert topic.pop() is not None
        server.ask("CONFIG", "SET", "maxmemory", "0")
        assert topic.add("tea").is_new
        assert topic.check().ok


@pytest.mark.slow
def test_clients_reconnect_after_all_connections_are_killed(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url)
    topic = any_client.topic("a")
    kills, pause = threading.Semaphore(0), threading.Event()

    def hang_up() -> None:
        for _ in range(20 * 5):
            kills.acquire()
            pause.wait(0.005)
            server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    hanging = threads.submit(hang_up)
    for n in range(20):
        kills.release(5)  # so many for each, or a slow machine would never get through
        assert any_client.call(topic, "add", n, id=str(n)).is_new
    hanging.result(LONGEST_S)
    stats = any_client.call(topic, "stats")
    assert (stats.ready, any_client.call(topic, "check").ok) == (20, True)


def test_a_call_is_repeated_while_the_server_has_too_many_clients(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    server = own_server(maxclients=4)
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(plain_client.RespConnection.connect(server.address)) for _ in range(4)]
        for line in lines:
            line.call("PING")
        any_client = make_client(kind, server.url, patience=0.15)
        with pytest.raises(tarry.Unavailable):
            any_client.call(any_client.topic("a"), "add", "tea")
        lines[0].close()
        lines[1].close()
        patient = make_client(kind, server.url, patience=20)
        assert patient.call(patient.topic("a"), "add", "tea").is_new


def test_a_waiting_pop_works_without_room_for_a_blocking_connection(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    server = own_server(maxclients=3)
    any_client = make_client(kind, server.url, imaginary=False)
    topic = any_client.topic("a")
    any_client.call(topic, "add", "tea", delay=0.2)
    with (
        plain_client.RespConnection.connect(server.address) as one,
        plain_client.RespConnection.connect(server.address) as two,
    ):
        one.call("PING")
        two.call("PING")
        assert any_client.call(topic, "pop", wait=20).body == "tea"
