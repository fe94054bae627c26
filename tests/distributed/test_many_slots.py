"""Waiting in more slots than a process may block connections for: the others are tracked, by one connection a node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from redis.crc import key_slot

import tarry
from distributed.test_cluster import move_slot
from distributed.waiters import (
    KINDS,
    NAMES,
    Waiting,
    blocked,
    connections,
    serve,
    slot_of,
    tokens,
    tracked_topic,
    waiting,
)
from faults.tracking import until_tracking
from server_groups import BigCluster, big_cluster, until
from tarry.connections import connection_limit
from tarry.connections.tracking import TrackingLoop
from tarry.core.watch import Watch
from tarry.values.keys import partition_keys, topic_keys
from tarry.verbs.jobs.partitions import partition_of_id
from until import LONGEST_S

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[BigCluster]:
    with big_cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def wake_ups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What woke the waiting consumers: tokens by their keys, and lost lines. Nothing is found by looking around."""
    seen: list[Any] = []
    woken, lost = Watch.token_received, Watch.connection_lost

    def note_woken(watch: Watch, key: bytes | None) -> None:
        seen.append(key)
        woken(watch, key)

    def note_lost(watch: Watch) -> None:
        seen.append("lost")
        lost(watch)

    monkeypatch.setattr(Watch, "token_received", note_woken)
    monkeypatch.setattr(Watch, "connection_lost", note_lost)
    monkeypatch.setattr(TrackingLoop, "recheck_s", 1000.0)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_slots_beyond_sixteen_share_one_tracking_connection_a_node(
    kind: str, cluster: BigCluster, wake_ups: list[Any]
) -> None:
    assert len(set(map(slot_of, NAMES))) == 24
    threads = threading.active_count()
    with waiting(kind, cluster, *NAMES) as (one, popped):
        assert blocked(cluster) == connection_limit.MOST_BLOCKED == 16
        assert len(one.tracked_slots()) == 8
        assert max(map(len, connections(cluster, "t"))) == 1
        # who waits; for each of three nodes one that goes round its slots, and the lookout
        assert threading.active_count() - threads <= (1 + 3 + 3 if kind == "sync" else 1 + 3)
        topic = tracked_topic(one)
        serve(cluster, topic, popped)
    assert tokens(topic) & set(wake_ups)
    until("nobody is left", lambda: blocked(cluster) == 0 and not any(connections(cluster, "t")))
    with tarry.Client(cluster.url) as other:
        assert all(other.topic(name).stats().watching == 0 for name in NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_with_24_partitions_uses_tracking_connections_too(
    kind: str, cluster: BigCluster, wake_ups: list[Any]
) -> None:
    with tarry.Client(cluster.url) as client:
        topic = client.topic(f"many-{kind}", partitions=24)
        topic.add("warm", id="warm")
        job = topic.pop()
        assert job is not None
        topic.finish(job)
    with waiting(kind, cluster, f"many-{kind}", many=24) as (one, popped):
        assert blocked(cluster) == 16
        assert len(one.tracked_slots()) == 8
        assert max(map(len, connections(cluster, "t"))) == 1
        parts = {key_slot(partition_keys("default", f"many-{kind}", n, 24).due): n for n in range(24)}
        wanted = {parts[slot] for slot in one.tracked_slots()}
        id = next(f"{n}" for n in range(10_000) if partition_of_id(f"{n}", 24) in wanted)
        with tarry.Client(cluster.url) as other:
            other.topic(f"many-{kind}").add("tea", id=id)
        assert popped.result(LONGEST_S) == (f"many-{kind}", "tea")
    keys = partition_keys("default", f"many-{kind}", partition_of_id(id, 24), 24)
    assert {keys.wake, keys.relay} & set(wake_ups)


def test_several_clients_share_the_limit_of_sixteen_blocked_connections(cluster: BigCluster) -> None:
    with waiting("sync", cluster, *NAMES[:12]) as (_, one), waiting("async", cluster, *NAMES[:12]) as (_, other):
        assert blocked(cluster) == 16
        with tarry.Client(cluster.url) as client:
            client.topic(NAMES[0]).add_many(["tea", "tea"])
        assert one.result(LONGEST_S) == other.result(LONGEST_S) == (NAMES[0], "tea")


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_client_releases_all_slots(kind: str, cluster: BigCluster) -> None:
    with ThreadPoolExecutor(1) as pool:
        one = Waiting(kind, cluster.url, pool)
        popped = one.pop(*NAMES)
        one.until_all_wait(24)
        if kind == "sync":
            one.client.close()
        else:
            asyncio.run_coroutine_threadsafe(one.client.close(), one.loop)  # its loop may end before it has
        with pytest.raises(tarry.Unavailable, match="closed"):
            popped.result(LONGEST_S)
    until("nobody is left", lambda: blocked(cluster) == 0 and not any(connections(cluster, "t")))
    with tarry.Client(cluster.url) as other:
        assert all(other.topic(name).stats().watching == 0 for name in NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_tracking_connection_is_reopened(kind: str, cluster: BigCluster, wake_ups: list[Any]) -> None:
    with waiting(kind, cluster, *NAMES) as (one, popped):
        before = connections(cluster, "t")
        for node, ids in zip(cluster.nodes, before, strict=True):
            for id in ids:
                node.ask("CLIENT", "KILL", "ID", id)
        until("other connections", lambda: wake_ups.count("lost") == 8)
        one.until_all_wait(24)
        assert not any(set(old) & set(new) for old, new in zip(before, connections(cluster, "t"), strict=True))
        topic = tracked_topic(one)
        serve(cluster, topic, popped)
    assert tokens(topic) & set(wake_ups)


@pytest.mark.parametrize("kind", KINDS)
def test_tracking_follows_a_slot_that_moves(kind: str, cluster: BigCluster, wake_ups: list[Any]) -> None:
    with waiting(kind, cluster, *NAMES) as (one, popped):
        topic = tracked_topic(one)
        slot, source = slot_of(topic), cluster.owner_of(topic_keys("default", topic).due)
        masters = [node for node in cluster.nodes if cluster.role(node) == "master"]
        target = next(node for node in masters if node is not source)
        here = one.lines()[slot]._tracking
        move_slot(masters, source, target, slot)
        until("a lookout at the other node", lambda: slot in one.lines() and one.lines()[slot]._tracking is not here)
        one.until_all_wait(24)
        serve(cluster, topic, popped)
    assert "lost" in wake_ups
    assert tokens(topic) & set(wake_ups)


def test_without_channels_a_moved_slot_is_found_by_rechecking(
    cluster: BigCluster, wake_ups: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is for a user who may not subscribe, and with Redis 6.2, which has no sharded channels."""
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "unheard", "on", "nopass", "~*", "resetchannels", "+@all")
    monkeypatch.setattr(TrackingLoop, "recheck_s", 0.3)
    with waiting("sync", cluster, *NAMES, url=cluster.url.replace("://", "://unheard:x@")) as (one, popped):
        topic = tracked_topic(one)
        slot, source = slot_of(topic), cluster.owner_of(topic_keys("default", topic).due)
        masters = [node for node in cluster.nodes if cluster.role(node) == "master"]
        here = one.lines()[slot]._tracking
        assert not here._loop.state._cluster
        move_slot(masters, source, next(node for node in masters if node is not source), slot)
        until("a lookout at the other node", lambda: slot in one.lines() and one.lines()[slot]._tracking is not here)
        one.until_all_wait(24)
        serve(cluster, topic, popped)
    assert "lost" in wake_ups
    assert tokens(topic) & set(wake_ups)


@pytest.mark.parametrize(("server", "kind"), [("redis7", "sync"), ("redis8", "async")])
def test_redis_reports_tokens_and_moved_slots_too(
    server: str, kind: str, constellation: Callable[[str], Any], wake_ups: list[Any]
) -> None:
    made = constellation(f"cluster of {server}")
    test_slots_beyond_sixteen_share_one_tracking_connection_a_node(kind, made, wake_ups)
    wake_ups.clear()
    test_a_lost_tracking_connection_is_reopened(kind, made, wake_ups)
    wake_ups.clear()
    test_tracking_follows_a_slot_that_moves(kind, made, wake_ups)


def test_the_clients_of_a_loop_share_a_tracking_connection_and_follow_their_slot(
    cluster: BigCluster, wake_ups: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another node, to that node's replica, and when the client that opened the connection is closed."""
    monkeypatch.setattr(connection_limit.BLOCKED_LIMIT, "maximum", 0)
    slot, due = slot_of("shared"), topic_keys("default", "shared").due

    def move() -> None:
        masters = [node for node in cluster.nodes if cluster.role(node) == "master"]
        source = cluster.owner_of(due)
        move_slot(masters, source, next(node for node in masters if node is not source), slot)

    def fail_over() -> None:
        master = cluster.owner_of(due)
        next(node for node in cluster.nodes if cluster.follows(node, master)).ask("CLUSTER", "FAILOVER")
        until("another master", lambda: cluster.owner_of(due) is not master)

    async def story() -> None:
        clients = [tarry.AsyncClient(cluster.url, patience="60s") for _ in range(5)]
        pops = [asyncio.ensure_future(client.pop("shared", wait=None)) for client in clients]
        for change in (lambda: None, move, fail_over, lambda: None):
            for client in clients:
                await until_tracking(client)
            assert max(map(len, connections(cluster, "t"))) == 1
            await asyncio.to_thread(change)
            await clients[-1].topic("shared").add("tea")
            [done], pending = await asyncio.wait(pops, return_when=asyncio.FIRST_COMPLETED, timeout=LONGEST_S)
            job = done.result()
            assert job is not None
            await job.finish()
            await clients.pop(pops.index(done)).close()
            pops = [pop for pop in pops if pop in pending]
        await clients[0].close()
        with pytest.raises(tarry.Unavailable, match="closed"):
            await pops[0]

    asyncio.run(asyncio.wait_for(story(), LONGEST_S))
    until("nobody is left", lambda: not any(connections(cluster, "t")))
    assert {"lost", *tokens("shared")} & set(wake_ups)
    cluster.until_whole()


@pytest.mark.parametrize("kind", KINDS)
def test_a_listener_at_a_former_master_is_still_woken(kind: str, cluster: BigCluster, wake_ups: list[Any]) -> None:
    with waiting(kind, cluster, *NAMES) as (one, popped):
        topic = tracked_topic(one)
        master = cluster.owner_of(topic_keys("default", topic).due)
        cluster.nodes[(cluster.nodes.index(master) + 3) % 6].ask("CLUSTER", "FAILOVER")
        until("another master", lambda: cluster.owner_of(topic_keys("default", topic).due) is not master)
        wake_ups.clear()
        serve(cluster, topic, popped)
    assert "lost" in wake_ups or tokens(topic) & set(wake_ups)
    cluster.until_whole()


def test_a_listener_at_a_killed_master_is_still_woken(cluster: BigCluster, wake_ups: list[Any]) -> None:
    """The last one: a node is gone."""
    with waiting("sync", cluster, *NAMES) as (one, popped), waiting("async", cluster, *NAMES) as (two, popped_too):
        topic = tracked_topic(two, lambda name: slot_of(name) in one.tracked_slots())
        master = cluster.owner_of(topic_keys("default", topic).due)
        master.kill()
        until("another master", lambda: cluster.owner_of(topic_keys("default", topic).due) is not master)
        with tarry.Client(cluster.url, patience="60s") as other:
            other.topic(topic).add_many(["tea", "tea"])
        assert popped.result(LONGEST_S) == popped_too.result(LONGEST_S) == (topic, "tea")
    assert "lost" in wake_ups
