"""Waiting on a tracking connection: tokens arrive on one connection, also when it breaks."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from faults.blocked_clients import async_story, blocked, waiting
from faults.proxy import CUTS, SILENT, Proxy
from faults.tracking import is_tracking, tracking_connections, until_tracking
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.tracking import TrackingLoop
from tarry.errors import ServerUnfit
from tarry.values.keys import topic_keys
from until import LONGEST_S, until

pytestmark = pytest.mark.usefixtures("woken")
HANG_S = 10
OTHERS = [pytest.param(f"{kind}_url", marks=pytest.mark.otherserver) for kind in ("redis8", "redis7", "redis6")]


@pytest.mark.parametrize("server", ["valkey_url", *OTHERS])
def test_client_tracking_reports_tokens_on_every_server(
    server: str, request: pytest.FixtureRequest, name: str, woken: list[bytes | None]
) -> None:
    url = request.getfixturevalue(server)
    keys = topic_keys("default", name)
    with tarry.Client(url) as client, tarry.Client(url) as other, ThreadPoolExecutor(1) as pool:
        for n in range(3):
            pop = pool.submit(client.topic(name).pop, wait=HANG_S)
            until(lambda: is_tracking(client))
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
        await until_tracking(client)
        await topic.add("tea")
        assert (await pop).body == "tea"

    async_story(url, story)
    assert {keys.wake, keys.relay} & set(woken)


def test_an_unused_tracking_connection_sleeps_until_it_is_closed(
    running: ServerProcess, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[bool] = []
    turn = TrackingLoop.turn

    def counted(loop: TrackingLoop, now: float) -> Any:
        answer = turn(loop, now)
        rounds.append(loop.state.idle)
        return answer

    monkeypatch.setattr(TrackingLoop, "turn", counted)
    monkeypatch.setattr(TrackingLoop, "linger_s", 0.3)
    with tarry.Client(running.url) as client:
        assert client.topic(at.name).pop(wait=0.1) is None
        until(lambda: rounds and not tracking_connections(running))
    assert sum(rounds) < 10


@pytest.mark.slow
def test_a_thousand_waiting_pops_share_one_tracking_connection(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(1000)]
        await until_tracking(client)
        assert (len(tracking_connections(running)), blocked(running)) == (1, [])
        for n in range(10):
            await topic.add_many(range(100 * n, 100 * n + 100))
        assert [job.body for job in await asyncio.gather(*tasks)] == list(range(1000))

    async_story(running.url, story)
    assert at.stats().watching == 0


def test_the_clients_of_a_loop_share_a_tracking_connection_and_outlive_each_other(
    running: ServerProcess, at: Any
) -> None:
    async def story() -> None:
        clients = [tarry.AsyncClient(running.url) for _ in range(20)]
        pops = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for client in clients]
        for client in clients:
            await until_tracking(client)
        assert (len(tracking_connections(running)), blocked(running)) == (1, [])
        for n in range(5):
            await clients[-1].topic(at.name).add(n)
            [done], pending = await asyncio.wait(pops, return_when=asyncio.FIRST_COMPLETED)
            assert done.result().body == n
            closed = pops.index(done)
            await clients.pop(closed).close()
            pops = [pop for pop in pops if pop in pending]
            assert len(tracking_connections(running)) == 1
        assert not any(pop.done() for pop in pops)
        for client in clients:
            await client.close()
        for answer in await asyncio.gather(*pops, return_exceptions=True):
            assert isinstance(answer, tarry.Unavailable)

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))
    until(lambda: not tracking_connections(running))
    assert at.stats().watching == 0


def test_threads_on_a_tracking_connection_are_served_in_order(running: ServerProcess, at: Any) -> None:
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
    until(lambda: not tracking_connections(running))
    assert at.stats().watching == 0


@pytest.mark.parametrize("fault", [*CUTS, *SILENT])
@pytest.mark.parametrize("command", [b"LLEN", b"LPOP", b"TRACKING"])
def test_tracking_survives_every_fault(
    command: bytes, fault: str, kind: str, make_client: Any, proxy: Proxy, at: Any
) -> None:
    any_client = make_client(kind, proxy.url(socket_timeout=0.2), imaginary=False)
    proxy.arm(fault, at=command)
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(any_client.call, any_client.topic(at.name), "pop", wait=None)
        if command != b"LPOP":
            until(lambda: proxy.struck)
        else:
            until(lambda: is_tracking(any_client.client))
        at.add("tea", delay=0.01)
        assert pop.result(HANG_S).body == "tea"
    assert proxy.struck
    assert at.stats().watching == 0


@pytest.mark.slow
def test_a_killed_tracking_connection_is_replaced(
    running: ServerProcess, at: Any, kind: str, make_client: Any, woken: list[bytes | None]
) -> None:
    any_client = make_client(kind, running.url, imaginary=False)
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(any_client.call, any_client.topic(at.name), "pop", wait=None)
        for _ in range(5):
            until(lambda: tracking_connections(running) and is_tracking(any_client.client))
            for id in tracking_connections(running):
                running.ask("CLIENT", "KILL", "ID", id)
        until(lambda: tracking_connections(running) and is_tracking(any_client.client))
        at.add("tea")
        assert pop.result(HANG_S).body == "tea"
    keys = topic_keys("default", at.name)
    assert {keys.wake, keys.relay} & set(woken)


def test_a_flush_triggers_a_check_for_tokens(running: ServerProcess, at: Any, woken: list[bytes | None]) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(1) as pool:
        pop = pool.submit(client.topic(at.name).pop, wait=HANG_S)
        until(lambda: is_tracking(client))
        running.ask("FLUSHALL")
        until(lambda: is_tracking(client))
        at.add("tea")
        job = pop.result(HANG_S)
        assert job is not None
        assert job.body == "tea"
    keys = topic_keys("default", at.name)
    assert {keys.wake, keys.relay} & set(woken)


def test_a_wake_key_of_another_type_raises_server_unfit(running: ServerProcess, at: Any) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(1) as pool:
        pop = pool.submit(client.topic(at.name).pop, wait=HANG_S)
        until(lambda: is_tracking(client))
        wake = topic_keys("default", at.name).wake.decode()
        running.ask("SET", wake, "no list")
        until(pop.done)
        running.ask("DEL", wake)
        with pytest.raises(ServerUnfit, match="another type"):
            pop.result()


def test_a_wait_without_tracking_permission_raises_server_unfit(
    running: ServerProcess, at: Any, kind: str, make_client: Any
) -> None:
    running.ask("ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-client|tracking")
    any_client = make_client(kind, running.url.replace("unix://", "unix://deaf:x@"), imaginary=False)
    with pytest.raises(ServerUnfit, match=r"ACL.*tracking"):
        any_client.call(any_client.topic(at.name), "pop", wait=HANG_S)
    assert at.stats().watching == 0
