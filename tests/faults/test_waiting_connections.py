"""The connection on which a process waits is killed, silent or refused."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from faults.blocked_clients import async_story, blocked, calls, until_blocked
from faults.proxy import Proxy
from tarry.connections import awaited, blocking_blpop
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until


@pytest.mark.slow
def test_a_killed_waiting_connection_is_replaced(running: ServerProcess, at: Any, kind: str, make_client: Any) -> None:
    async def awaited(client: Any) -> None:
        topic = client.topic(at.name)
        pops = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(5)]
        for _ in range(5):
            await until_blocked(running)
            running.ask("CLIENT", "KILL", "ID", blocked(running)[0])
        await until_blocked(running)
        at.add_many(range(5))
        assert [job.body for job in await asyncio.gather(*pops)] == list(range(5))

    if kind == "async":
        async_story(running.url, awaited)
        return
    with tarry.Client(running.url) as client, ThreadPoolExecutor(5) as pool:
        pops = [pool.submit(client.topic(at.name).pop, wait=None) for _ in range(5)]
        for _ in range(5):
            until(lambda: blocked(running))
            running.ask("CLIENT", "KILL", "ID", blocked(running)[0])
        until(lambda: blocked(running))
        at.add_many(range(5))
        assert sorted(pop.result(LONGEST_S).body for pop in pops) == list(range(5))  # type: ignore[union-attr]


def test_a_client_unblock_that_races_a_token_loses_no_job(
    running: ServerProcess, client: tarry.Client, at: Any
) -> None:
    topic, stop = client.topic(at.name), threading.Event()

    def meddle() -> None:
        while not stop.is_set():
            for id in blocked(running):
                running.ask("CLIENT", "UNBLOCK", id, random.choice(["TIMEOUT", "ERROR"]))

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        for n in range(60):
            at.add(n, delay=random.uniform(0, 0.004))
            job = topic.pop(wait=LONGEST_S)
            assert job is not None
            assert job.body == n
            topic.finish(job)
    finally:
        stop.set()
        meddler.join()


@pytest.mark.slow
def test_a_silent_waiting_connection_is_replaced(
    proxy: Proxy, running: ServerProcess, at: Any, kind: str, make_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection looks open, and the server's answers do not come: it is not trusted for ever."""
    monkeypatch.setattr(blocking_blpop.BlpopConnection, "wait_s", 1)
    monkeypatch.setattr(awaited.BlpopConnection, "wait_s", 1)
    any_client = make_client(kind, proxy.url(socket_timeout=0.2), imaginary=False)
    proxy.arm("ignored", at=b"BLPOP")
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(any_client.call, any_client.topic(at.name), "pop", wait=None)
        until(lambda: proxy.struck)
        until(lambda: blocked(running), "another connection waits")
        at.add("tea", delay=0.01)
        assert pop.result(LONGEST_S).body == "tea"


def test_a_waiting_pop_gets_jobs_while_every_blpop_is_cut(proxy: Proxy, running: ServerProcess, at: Any) -> None:
    """Every BLPOP is cut: jobs are handed out all the same, and nobody spins."""
    before = calls(running)
    proxy.arm(*["unsent"] * 500, at=b"BLPOP")
    at.add("tea", delay=0.3)
    with tarry.Client(proxy.url()) as client:
        job = client.topic(at.name).pop(wait=LONGEST_S)
    assert job is not None
    assert job.body == "tea"
    assert calls(running) - before < 40
