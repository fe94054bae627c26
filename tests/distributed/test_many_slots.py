"""Waiting in more slots than a process may block connections for: the others are heard, by one connection a node."""

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
    HANG_S,
    KINDS,
    NAMES,
    Waiting,
    blocked,
    connections,
    heard_topic,
    serve,
    slot_of,
    tokens,
    waiting,
)
from server_groups import BigCluster, big_cluster, until
from tarry.clients.awaited import wait_connections as awaiting
from tarry.clients.blocking import wait_connections as blocking
from tarry.connections import connection_limit
from tarry.core.watch import Watch
from tarry.values.keys import partition_keys, topic_keys
from tarry.verbs.jobs.partitions import partition_of_id

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


@pytest.fixture(scope="module")
def six() -> Iterator[BigCluster]:
    with big_cluster() as made:
        yield made


@pytest.fixture(autouse=True)
def signs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What called those who wait: tokens by their keys, and lost lines. Nothing is found by looking around."""
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
    for module in (blocking, awaiting):
        monkeypatch.setattr(module.TrackingConnection, "recheck_s", 1000.0)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_beyond_sixteen_slots_one_connection_a_node_hears(kind: str, six: BigCluster, signs: list[Any]) -> None:
    assert len(set(map(slot_of, NAMES))) == 24
    threads = threading.active_count()
    with waiting(kind, six, *NAMES) as (one, popped):
        assert blocked(six) == connection_limit.MOST_BLOCKED == 16
        assert len(one.heard()) == 8
        assert max(map(len, connections(six, "t"))) == 1
        # who waits; for each of three nodes one that goes round its slots, and the lookout
        assert threading.active_count() - threads <= (1 + 3 + 3 if kind == "sync" else 1 + 3)
        topic = heard_topic(one)
        serve(six, topic, popped)
    assert tokens(topic) & set(signs)
    until("nobody is left", lambda: blocked(six) == 0 and not any(connections(six, "t")))
    with tarry.Client(six.url) as other:
        assert all(other.topic(name).stats().watching == 0 for name in NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_with_many_partitions_is_waited_for_alike(kind: str, six: BigCluster, signs: list[Any]) -> None:
    with tarry.Client(six.url) as client:
        topic = client.topic(f"many-{kind}", partitions=24)
        topic.add("warm", id="warm")
        job = topic.pop()
        assert job is not None
        topic.finish(job)
    with waiting(kind, six, f"many-{kind}", many=24) as (one, popped):
        assert blocked(six) == 16
        assert len(one.heard()) == 8
        assert max(map(len, connections(six, "t"))) == 1
        parts = {key_slot(partition_keys("default", f"many-{kind}", n, 24).due): n for n in range(24)}
        wanted = {parts[slot] for slot in one.heard()}
        id = next(f"{n}" for n in range(10_000) if partition_of_id(f"{n}", 24) in wanted)
        with tarry.Client(six.url) as other:
            other.topic(f"many-{kind}").add("tea", id=id)
        assert popped.result(HANG_S) == (f"many-{kind}", "tea")
    keys = partition_keys("default", f"many-{kind}", partition_of_id(id, 24), 24)
    assert {keys.wake, keys.relay} & set(signs)


def test_of_several_clients_no_more_than_sixteen_connections_block(six: BigCluster) -> None:
    with waiting("sync", six, *NAMES[:12]) as (_, one), waiting("async", six, *NAMES[:12]) as (_, other):
        assert blocked(six) == 16
        with tarry.Client(six.url) as client:
            client.topic(NAMES[0]).add_many(["tea", "tea"])
        assert one.result(HANG_S) == other.result(HANG_S) == (NAMES[0], "tea")


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_is_closed_lets_go_of_all_slots(kind: str, six: BigCluster) -> None:
    with ThreadPoolExecutor(1) as pool:
        one = Waiting(kind, six.url, pool)
        popped = one.pop(*NAMES)
        one.until_all_wait(24)
        if kind == "sync":
            one.client.close()
        else:
            asyncio.run_coroutine_threadsafe(one.client.close(), one.loop)  # its loop may end before it has
        with pytest.raises(tarry.Unavailable, match="closed"):
            popped.result(HANG_S)
    until("nobody is left", lambda: blocked(six) == 0 and not any(connections(six, "t")))
    with tarry.Client(six.url) as other:
        assert all(other.topic(name).stats().watching == 0 for name in NAMES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_hearing_connection_is_made_again(kind: str, six: BigCluster, signs: list[Any]) -> None:
    with waiting(kind, six, *NAMES) as (one, popped):
        before = connections(six, "t")
        for node, ids in zip(six.nodes, before, strict=True):
            for id in ids:
                node.ask("CLIENT", "KILL", "ID", id)
        until("other connections", lambda: signs.count("lost") == 8)
        one.until_all_wait(24)
        assert not any(set(old) & set(new) for old, new in zip(before, connections(six, "t"), strict=True))
        topic = heard_topic(one)
        serve(six, topic, popped)
    assert tokens(topic) & set(signs)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_that_moves_away_is_heard_where_it_is(kind: str, six: BigCluster, signs: list[Any]) -> None:
    with waiting(kind, six, *NAMES) as (one, popped):
        topic = heard_topic(one)
        slot, source = slot_of(topic), six.owner_of(topic_keys("default", topic).due)
        masters = [node for node in six.nodes if six.role(node) == "master"]
        target = next(node for node in masters if node is not source)
        here = one.lines()[slot]._tracking
        move_slot(masters, source, target, slot)
        until("a lookout at the other node", lambda: slot in one.lines() and one.lines()[slot]._tracking is not here)
        one.until_all_wait(24)
        serve(six, topic, popped)
    assert "lost" in signs
    assert tokens(topic) & set(signs)


def test_without_channels_a_moved_slot_is_followed_by_looking_around(
    six: BigCluster, signs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is for a user who may not subscribe, and with Redis 6.2, which has no sharded channels."""
    for node in six.nodes:
        node.ask("ACL", "SETUSER", "unheard", "on", "nopass", "~*", "resetchannels", "+@all")
    monkeypatch.setattr(blocking.TrackingConnection, "recheck_s", 0.3)
    with waiting("sync", six, *NAMES, url=six.url.replace("://", "://unheard:x@")) as (one, popped):
        topic = heard_topic(one)
        slot, source = slot_of(topic), six.owner_of(topic_keys("default", topic).due)
        masters = [node for node in six.nodes if six.role(node) == "master"]
        here = one.lines()[slot]._tracking
        assert not here._state._cluster
        move_slot(masters, source, next(node for node in masters if node is not source), slot)
        until("a lookout at the other node", lambda: slot in one.lines() and one.lines()[slot]._tracking is not here)
        one.until_all_wait(24)
        serve(six, topic, popped)
    assert "lost" in signs
    assert tokens(topic) & set(signs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("server", ["redis7", "redis8"])
def test_redis_tells_of_tokens_and_of_slots_that_leave_as_well(
    server: str, kind: str, constellation: Callable[[str], Any], signs: list[Any]
) -> None:
    made = constellation(f"cluster of {server}")
    test_beyond_sixteen_slots_one_connection_a_node_hears(kind, made, signs)
    signs.clear()
    test_a_lost_hearing_connection_is_made_again(kind, made, signs)
    signs.clear()
    test_a_slot_that_moves_away_is_heard_where_it_is(kind, made, signs)


@pytest.mark.parametrize("kind", KINDS)
def test_who_hears_at_a_master_that_is_one_no_more_is_called_all_the_same(
    kind: str, six: BigCluster, signs: list[Any]
) -> None:
    with waiting(kind, six, *NAMES) as (one, popped):
        topic = heard_topic(one)
        master = six.owner_of(topic_keys("default", topic).due)
        six.nodes[(six.nodes.index(master) + 3) % 6].ask("CLUSTER", "FAILOVER")
        until("another master", lambda: six.owner_of(topic_keys("default", topic).due) is not master)
        signs.clear()
        serve(six, topic, popped)
    assert "lost" in signs or tokens(topic) & set(signs)
    six.until_whole()


def test_who_hears_at_a_master_that_is_killed_is_called_all_the_same(six: BigCluster, signs: list[Any]) -> None:
    """The last one: a node is gone."""
    with waiting("sync", six, *NAMES) as (one, popped), waiting("async", six, *NAMES) as (two, popped_too):
        topic = heard_topic(two, lambda name: slot_of(name) in one.heard())
        master = six.owner_of(topic_keys("default", topic).due)
        master.kill()
        until("another master", lambda: six.owner_of(topic_keys("default", topic).due) is not master)
        with tarry.Client(six.url, patience="60s") as other:
            other.topic(topic).add_many(["tea", "tea"])
        assert popped.result(HANG_S) == popped_too.result(HANG_S) == (topic, "tea")
    assert "lost" in signs
