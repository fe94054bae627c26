"""Who waits without a blocked connection of his own: tokens are heard, on one connection, whatever befalls it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from faults.blocked import async_story, blocked, waiting
from faults.proxy import CUTS, SILENT, Proxy
from faults.test_interrupted import Interrupted
from tarry.clients.aio import lookout as awaiting
from tarry.clients.sync import lookout as blocking
from tarry.errors import ServerUnfit
from tarry.idea.watch import Watch
from tarry.links import budget
from tarry.links.embedded.launch import Running
from tarry.words.keys import topic_keys
from until import until

HANG_S = 10
OTHERS = [pytest.param(f"{kind}_url", marks=pytest.mark.otherserver) for kind in ("redis8", "redis7", "redis6")]


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """No connection may block, and nothing is found by looking around. Answers the tokens that called somebody."""
    seen: list[bytes | None] = []
    told = Watch.woken

    def note(watch: Watch, key: bytes | None) -> None:
        seen.append(key)
        told(watch, key)

    monkeypatch.setattr(Watch, "woken", note)
    monkeypatch.setattr(budget.SINGLE, "most", 0)
    for module in (blocking, awaiting):
        monkeypatch.setattr(module.Lookout, "look_around_s", 1000.0)
        monkeypatch.setattr(module.Lookout, "linger_s", 0.05)
    return seen


def told(running: Running) -> list[str]:
    """The ids of connections that hear."""
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
    return [row["id"] for row in rows if "t" in row["flags"]]


def hears(client: Any, many: int = 1) -> bool:
    """Whether so many waiters of a client hear all their tokens."""
    lines = [waiter._line for waiter in list(client.engine._waiters.values())]
    heard = [line for line in lines if line is not None and line.keys]
    return len(heard) == many and all(
        not line._lookout._orders.awaiting and line._lookout._orders._heard.issuperset(line.keys) for line in heard
    )


async def until_it_hears(client: Any) -> None:
    while not hears(client):  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.002)


@pytest.mark.parametrize("server", ["valkey_url", *OTHERS])
def test_a_token_is_heard_on_every_server(
    server: str, request: pytest.FixtureRequest, name: str, woken: list[bytes | None]
) -> None:
    url = request.getfixturevalue(server)
    keys = topic_keys("default", name)
    with tarry.Client(url) as client, tarry.Client(url) as other, ThreadPoolExecutor(1) as pool:
        for n in range(3):
            pop = pool.submit(client.topic(name).pop, wait=HANG_S)
            until(lambda: hears(client))
            other.topic(name).add(n)
            job = pop.result(HANG_S)
            assert job is not None
            assert job.body == n
            client.topic(name).finish(job)
            assert {keys.wake, keys.relay} & set(woken)
            woken.clear()

    async def story(client: Any) -> None:
        topic = client.topic(name)
        pop = asyncio.ensure_future(topic.pop(wait=HANG_S))
        await until_it_hears(client)
        await topic.add("tea")
        assert (await pop).body == "tea"

    async_story(url, story)
    assert {keys.wake, keys.relay} & set(woken)


def test_a_thousand_waiting_pops_are_one_connection_that_hears(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(1000)]
        await until_it_hears(client)
        assert (len(told(running)), blocked(running)) == (1, [])
        for n in range(10):
            await topic.add_many(range(100 * n, 100 * n + 100))
        assert [job.body for job in await asyncio.gather(*tasks)] == list(range(1000))

    async_story(running.url, story)
    assert at.stats().watching == 0


def test_threads_that_hear_are_served_in_the_order_in_which_they_came(running: Running, at: Any) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(8) as pool:
        pops = []
        for n in range(8):
            pops.append(pool.submit(client.topic(at.name).pop, wait=None))
            until(lambda n=n: waiting(client) == n + 1)  # type: ignore[misc]
        assert client.topic(at.name).pop(wait=0.02) is None  # who came last does not wait as long as the first
        for n in range(8):
            at.add(n)
            job = pops[n].result(HANG_S)
            assert job is not None
            assert job.body == n
    until(lambda: not told(running))
    assert at.stats().watching == 0


@pytest.mark.parametrize("fault", [*CUTS, *SILENT])
@pytest.mark.parametrize("command", [b"LLEN", b"LPOP", b"TRACKING"])
def test_no_fault_makes_who_hears_deaf(command: bytes, fault: str, kind: str, ways: Any, line: Proxy, at: Any) -> None:
    way = ways(kind, line.url(socket_timeout=0.2), imaginary=False)
    line.arm(fault, at=command)
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(way.do, way.topic(at.name), "pop", wait=None)
        if command != b"LPOP":
            until(lambda: line.struck)
        else:
            until(lambda: hears(way.client))
        at.add("tea", delay=0.01)
        assert pop.result(HANG_S).body == "tea"
    assert line.struck
    assert at.stats().watching == 0


def test_a_killed_hearing_connection_is_replaced(
    running: Running, at: Any, kind: str, ways: Any, woken: list[bytes | None]
) -> None:
    way = ways(kind, running.url, imaginary=False)
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(way.do, way.topic(at.name), "pop", wait=None)
        for _ in range(5):
            until(lambda: told(running) and hears(way.client))
            for id in told(running):
                running.ask("CLIENT", "KILL", "ID", id)
        until(lambda: told(running) and hears(way.client))
        at.add("tea")
        assert pop.result(HANG_S).body == "tea"
    keys = topic_keys("default", at.name)
    assert {keys.wake, keys.relay} & set(woken)


def test_a_flushed_server_is_looked_into(running: Running, at: Any, woken: list[bytes | None]) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(1) as pool:
        pop = pool.submit(client.topic(at.name).pop, wait=HANG_S)
        until(lambda: hears(client))
        running.ask("FLUSHALL")
        until(lambda: hears(client))
        at.add("tea")
        job = pop.result(HANG_S)
        assert job is not None
        assert job.body == "tea"
    keys = topic_keys("default", at.name)
    assert {keys.wake, keys.relay} & set(woken)


def test_something_else_where_the_token_lies_is_told_to_who_waits(running: Running, at: Any) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(1) as pool:
        pop = pool.submit(client.topic(at.name).pop, wait=HANG_S)
        until(lambda: hears(client))
        wake = topic_keys("default", at.name).wake.decode()
        running.ask("SET", wake, "no list")
        until(pop.done)
        running.ask("DEL", wake)
        with pytest.raises(ServerUnfit, match="another kind"):
            pop.result()


def test_where_the_server_may_not_tell_of_changes_who_waits_learns_why(
    running: Running, at: Any, kind: str, ways: Any
) -> None:
    running.ask("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-client|tracking")
    way = ways(kind, running.url.replace("unix://", "unix://deaf:x@"), imaginary=False)
    with pytest.raises(ServerUnfit, match=r"ACL.*tracking"):
        way.do(way.topic(at.name), "pop", wait=HANG_S)
    assert at.stats().watching == 0


OTHER_PROCESS = """
import sys, tarry
from tarry.links import budget
budget.SINGLE.most = 0
with tarry.Client(sys.argv[1]) as client:
    topic = client.topic(sys.argv[2])
    while (job := topic.pop(wait=20)) is not None:
        topic.finish(job)
        if job.body == "end":
            break
        print(job.body, job.attempt, flush=True)
"""


def test_two_processes_that_hear_the_same_token_take_it_once(
    running: Running, at: Any, woken: list[bytes | None]
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, running.url, at.name], stdout=subprocess.PIPE, text=True
    )
    taken: list[tuple[Any, int]] = []
    with tarry.Client(running.url) as client, child:
        topic = client.topic(at.name)

        def work() -> None:
            while (job := topic.pop(wait=HANG_S)) is not None and job.body != "end":
                topic.finish(job)
                taken.append((job.body, job.attempt))
            assert job is not None
            topic.finish(job)

        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: len(told(running)) == 2)
        for n in range(20):
            at.add(n)
            until(lambda n=n: at.stats().finished == n + 1)  # type: ignore[misc]
        at.add_many(["end", "end"])
        thread.join(HANG_S)
        out, _ = child.communicate(timeout=HANG_S)
    theirs = [tuple(map(int, row.split())) for row in out.splitlines()]
    assert sorted([*taken, *theirs]) == [(n, 1) for n in range(20)]
    assert at.stats().watching == 0


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Interrupts the main thread, which runs the tests."""

    def strike(number: int, frame: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, strike)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("followers", [0, 3])
def test_when_a_leader_that_hears_is_interrupted_followers_take_over(
    followers: int, interrupt: Callable[[], None], running: Running, at: Any
) -> None:
    pops: list[Any] = []
    with ThreadPoolExecutor(8) as pool, tarry.Client(running.url) as client:
        topic = client.topic(at.name)

        def conduct() -> None:
            until(lambda: waiting(client) == 1 and hears(client))
            pops.extend(pool.submit(topic.pop, wait=None) for _ in range(followers))
            until(lambda: waiting(client) == 1 + followers)
            interrupt()

        conductor = pool.submit(conduct)
        with pytest.raises(Interrupted):
            topic.pop(wait=None)
        conductor.result(HANG_S)
        at.add_many(range(followers))
        assert sorted(pop.result(HANG_S).body for pop in pops) == list(range(followers))
        until(lambda: not told(running))
        assert at.stats().watching == 0


def test_closing_the_client_tells_those_who_hear(running: Running, at: Any, kind: str) -> None:
    if kind == "sync":
        client = tarry.Client(running.url)
        with ThreadPoolExecutor(8) as pool:
            pops = [pool.submit(client.topic(at.name).pop, wait=None) for _ in range(8)]
            until(lambda: waiting(client) == 8 and hears(client))
            client.close()
            for pop in pops:
                with pytest.raises(tarry.Unavailable, match="closed"):
                    pop.result(HANG_S)
    else:

        async def story() -> None:
            client = tarry.AsyncClient(running.url)
            pops = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for _ in range(8)]
            await until_it_hears(client)
            await client.close()
            for answer in await asyncio.gather(*pops, return_exceptions=True):
                assert isinstance(answer, tarry.Unavailable)

        asyncio.run(story())
    until(lambda: not told(running))
    assert at.stats().watching == 0


def test_a_cancelled_pop_that_heard_hands_back_its_seat(running: Running, at: Any) -> None:
    at.add("tea", delay="5s")

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        for _ in range(20):
            pop = asyncio.ensure_future(topic.pop(wait=None))
            await asyncio.sleep(0.003)
            pop.cancel()
            await asyncio.wait({pop})
        await client.close()

    async_story(running.url, story)
    assert at.stats().watching == 0
    assert (at.stats().delayed, at.stats().reserved) == (1, 0)
