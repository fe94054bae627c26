"""Guarded queues when something breaks, and on servers without scripts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from faults.proxy import CUTS, DONE, Proxy
from guarded.conftest import Everyone, EveryoneAwaited
from locks.conftest import redis_client, zookeeper_client
from locks.lock_users import LockUsers
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import ServerUnfit
from until import until
from zookeepers import ZooKeeper


@pytest.fixture(params=["script", "plain"])
def guard(request: pytest.FixtureRequest, lock_users: LockUsers) -> Any:
    if request.param == "script":
        return None
    return Everyone() if lock_users.client_kind == "sync" else EveryoneAwaited()


@pytest.mark.parametrize("cut", CUTS)
def test_a_push_with_a_cut_connection_is_stored_once(
    proxy: Proxy, lock_users: LockUsers, name: str, guard: Any, cut: str
) -> None:
    user, queue = lock_users.user(), lock_users.client(proxy.url()).guarded_queue(name, guard=guard)
    user.call(queue.size)
    proxy.arm(cut, at=b"body of tea")
    user.call(queue.push, [("body of tea", 0)])
    assert proxy.struck == 1
    assert [item.value for item in user.call(queue.poll_many, 10)] == ["body of tea"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_poll_with_a_cut_connection_loses_nothing(
    proxy: Proxy, lock_users: LockUsers, name: str, guard: Any, cut: str
) -> None:
    user, queue = lock_users.user(), lock_users.client(proxy.url()).guarded_queue(name, guard=guard)
    user.call(queue.push, [(f"tea {i}", 0) for i in range(5)])
    assert user.call(queue.poll).value == "tea 0"
    proxy.arm(cut, at=b"EVALSHA" if guard is None else b"EXEC")
    assert [item.value for item in user.call(queue.poll_many, 3)] == ["tea 1", "tea 2", "tea 3"]
    assert proxy.struck == 1
    assert [item.value for item in user.call(queue.poll_many, 3)] == ["tea 4"]


def test_polls_with_repeated_cuts_lose_nothing(proxy: Proxy, lock_users: LockUsers, name: str, guard: Any) -> None:
    user, queue = lock_users.user(), lock_users.client(proxy.url()).guarded_queue(name, guard=guard)
    user.call(queue.push, [(i, 0) for i in range(40)])
    got: list[int] = []
    for _ in range(4):
        proxy.arm(*DONE[:2], at=b"EVALSHA" if guard is None else b"EXEC")
        got += [item.value for item in user.call(queue.poll_many, 10)]
    assert got == list(range(40))
    assert proxy.struck >= 4  # with plain commands the second try only looks


@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_guarded_queue_works_without_scripts(
    own_server: Callable[..., ServerProcess], zookeeper: ZooKeeper, name: str, client_kind: str
) -> None:
    words = [word for command in ("EVAL", "EVALSHA", "SCRIPT") for word in ("--rename-command", command, "")]
    lock_users = LockUsers(client_kind, redis_client(own_server(*words).url))
    zookeeper_users = LockUsers(client_kind, zookeeper_client(zookeeper.hosts))
    try:
        user, client = lock_users.user(), lock_users.client()
        queue = client.guarded_queue(name, guard=zookeeper_users.client().lock(name))
        user.call(queue.push, [("a", 0), ("b", 0.1)])
        assert user.call(queue.poll).value == "a"
        assert user.call(queue.poll, wait=20).value == "b"
        assert user.call(queue.size) == 0
        with pytest.raises(ServerUnfit, match="it runs no scripts"):
            user.call(client.guarded_queue(name).push, [("c", 0)])
    finally:
        lock_users.close()
        zookeeper_users.close()


@pytest.mark.parametrize("client_kind", ["async"])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_cancelled_poll_gives_its_items_back(
    valkey_url: str, name: str, client_kind: str, guard: Any, limit: int | None
) -> None:
    import asyncio

    import tarry

    async def story() -> None:
        async with tarry.AsyncClient(valkey_url) as client:
            queue = client.guarded_queue(name, guard=guard)
            await queue.push([(i, 0) for i in range(50)])
            got: list[int] = []
            for turn in range(60):
                polling = queue.poll() if limit is None else queue.poll_many(limit)
                task: asyncio.Task[Any] = asyncio.ensure_future(polling)
                for _ in range(turn % 12):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    found = task.result()
                    got += [item.value for item in (found if isinstance(found, list) else filter(None, [found]))]
            for _ in range(100):
                if not (left := await queue.poll_many(100, wait=0.05)) and len(got) == 50:
                    break
                got += [item.value for item in left]
            assert sorted(got) == list(range(50))

    if isinstance(guard, Everyone) and not isinstance(guard, EveryoneAwaited):
        guard = EveryoneAwaited()
    asyncio.run(story())


@pytest.mark.parametrize("client_kind", ["async"])
def test_tasks_that_connect_at_the_same_time_share_one_connection(
    own_server: Callable[..., ServerProcess], name: str, client_kind: str, guard: Any
) -> None:
    import asyncio

    import tarry

    server = own_server()

    def lines() -> int:
        listed = server.ask("CLIENT", "LIST")
        assert isinstance(listed, bytes)
        return listed.count(b"name=tarry ")

    async def story() -> None:
        async with tarry.AsyncClient(server.url) as client:
            queue = client.guarded_queue(name, guard=guard)
            await asyncio.gather(*(queue.push([(n, 0)]) for n in range(5)))
            until(lambda: lines() == 1)

    asyncio.run(story())


def test_resubscribing_as_the_last_subscriber_leaves_leaks_no_connection(
    valkey_url: str, server: Any, name: str
) -> None:
    """The connection without subscribers is about to end. A subscriber that comes then gets its messages over it, or over another one."""
    import asyncio

    import tarry
    from tarry.clients.awaited.pubsub import PubSub

    def lines() -> int:
        return sum(one["sub"] != "0" for one in server.client_list())

    async def story() -> None:
        before, channel = lines(), name.encode()
        async with tarry.AsyncClient(valkey_url) as client:
            await client.topics()
            connections = len(server.client_list())
            pubsub = client.engine.shared_part(PubSub)
            for turn in range(60):
                ear = await pubsub.subscribe(channel, (channel,), lambda *_: None)
                pubsub.unsubscribe(ear)
                for _ in range(turn % 6):  # so that each moment of its end is met
                    await asyncio.sleep(0)
                again = await pubsub.subscribe(channel, (channel,), lambda *_: None)
                until(lambda: lines() == before + 1)
                pubsub.unsubscribe(again)
            await asyncio.to_thread(until, lambda: len(server.client_list()) == connections, "it is closed")
            opened = server.info("stats")["total_connections_received"]
            for _ in range(50):
                await client.topics()
            assert server.info("stats")["total_connections_received"] == opened, "nor opened again"

    asyncio.run(story())


@pytest.mark.otherserver
@pytest.mark.parametrize("client_kind", ["sync", "async"])
@pytest.mark.parametrize("layout", ["tarry", "java"])
def test_guarded_queues_work_on_a_cluster_and_on_redis(
    cluster_nodes: list[tuple[str, int]],
    redis6_url: str,
    redis7_url: str,
    redis8_url: str,
    name: str,
    client_kind: str,
    layout: str,
) -> None:
    everywhere = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    for url in (everywhere, redis6_url, redis7_url, redis8_url):
        lock_users = LockUsers(client_kind, redis_client(url))
        try:
            user, client = lock_users.user(), lock_users.client()
            for keeper in (None, client.lock("guard of " + name)):
                queue = client.guarded_queue(name, guard=keeper, layout=layout)
                user.call(queue.push, [("a", 0), ("b", 0.05)])
                got = user.call(queue.poll_many, 1, wait=5)
                while len(got) < 2:
                    got += user.call(queue.poll_many, 1, wait=5)
                assert [item.value for item in got] == ["a", "b"]
        finally:
            lock_users.close()
            time.sleep(0)
