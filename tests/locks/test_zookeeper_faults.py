"""Locks on ZooKeeper when something breaks: holders, sessions, lines, nodes, the server."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from faults.proxy import CUTS, Proxy
from locks.conftest import zookeeper_client
from locks.holder_process import HolderProcess
from locks.lock_nodes import nodes
from locks.lock_users import LockUsers
from tarry.errors import LockLost, Unavailable
from until import LONGEST_S, until
from zookeepers import ZooKeeper

SESSION = "1"


@pytest.fixture
def proxy(zookeeper: ZooKeeper) -> Iterator[Proxy]:
    host, port = zookeeper.hosts.split(":")
    proxy = Proxy(None, (host, int(port)))
    yield proxy
    proxy.close()


def test_a_killed_holders_lock_is_free_when_its_session_ends(
    start_holder: Callable[..., HolderProcess], zookeeper_users: LockUsers, zookeeper: ZooKeeper, name: str
) -> None:
    holder = start_holder("zookeeper", zookeeper.hosts, name, "none", SESSION)
    holder.signal(signal.SIGKILL)
    assert zookeeper_users.user().call(zookeeper_users.client().lock(name).acquire, wait=20).token > holder.token


def test_a_frozen_holder_has_lost_the_lock_when_it_resumes(
    start_holder: Callable[..., HolderProcess], zookeeper_users: LockUsers, zookeeper: ZooKeeper, name: str
) -> None:
    holder = start_holder("zookeeper", zookeeper.hosts, name, "none", SESSION)
    holder.signal(signal.SIGSTOP)
    user = zookeeper_users.user()
    grant = user.call(zookeeper_users.client().lock(name).acquire, wait=20)
    assert grant.token > holder.token
    holder.signal(signal.SIGCONT)
    assert holder.read_line() == "lost True"
    assert holder.say("check") == "lock_lost"
    assert holder.say("release") == "lock_lost"
    user.call(grant.check)


def test_an_expired_lock_is_freed_by_the_first_waiter(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    """Its owner is stuck, but its heartbeats go on: nobody else would ever get it."""
    stuck = kazoo.create(
        f"/tarry/tests/{name}/_c_stuck-lock-",
        b'{"who":"stuck","lease_ms":200}',
        ephemeral=True,
        sequence=True,
        makepath=True,
    )
    first, second = zookeeper_users.user(), zookeeper_users.user()
    waiting = first.begin(zookeeper_users.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 2)
    behind = second.begin(zookeeper_users.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 3)
    grant = waiting.result(LONGEST_S)
    assert not kazoo.exists(stuck)
    assert not behind.done()
    first.call(grant.release)
    assert behind.result(LONGEST_S).token > grant.token


def test_an_expired_lock_is_freed_by_its_holders_timer(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    user = zookeeper_users.user()
    grant = user.call(zookeeper_users.client().lock(name).acquire, lease=0.2)
    told = threading.Event()
    grant.on_lost(told.set)
    assert told.wait(10)
    until(lambda: nodes(kazoo, name) == [])
    with pytest.raises(LockLost, match="its lease ended"):
        user.call(grant.release)


def test_a_lock_without_a_lease_never_expires(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    """Another library's nodes stand in the same line, and have none."""
    kazoo.create(f"/tarry/tests/{name}/_c_curator-lock-", b"10.0.0.1", ephemeral=True, sequence=True, makepath=True)
    user, client = zookeeper_users.user(), zookeeper_users.client()
    assert user.call(client.lock(name).acquire, wait=1.5) is None
    assert len(nodes(kazoo, name)) == 1
    state = user.call(client.lock(name).state)
    assert state.held
    assert state.holder == f"session {kazoo.client_id[0]:#x}"


def test_an_expired_session_loses_the_lock(zookeeper_users: LockUsers, zookeeper: ZooKeeper, name: str) -> None:
    from kazoo.client import KazooClient

    user, other = zookeeper_users.user(), zookeeper_users.user()
    client = zookeeper_users.client()
    grant = user.call(client.lock(name).acquire)
    waiting = other.begin(zookeeper_users.client().lock(name).acquire, wait=20)
    owner = user.call(client._part)._session._client
    thief = KazooClient(zookeeper.hosts, client_id=owner.client_id)
    thief.start()
    thief.stop()  # ends the session that both are
    thief.close()
    assert user.call(grant.lost.wait, 20)
    with pytest.raises(LockLost):
        user.call(grant.check)
    assert waiting.result(LONGEST_S).token > grant.token
    other.call(waiting.result().release)
    assert user.call(client.lock(name).acquire, wait=20).token > waiting.result().token


def test_deleting_the_node_loses_the_lock(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client()
    grant = user.call(client.lock(name).acquire)
    kazoo.delete(f"/tarry/tests/{name}/{nodes(kazoo, name)[0]}")
    assert user.call(grant.lost.wait, 10)
    with pytest.raises(LockLost, match="its node was deleted"):
        user.call(grant.release)
    assert user.call(client.lock(name).acquire, wait=5).token > grant.token


def test_a_waiter_whose_node_is_deleted_queues_again(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    first, second = zookeeper_users.user(), zookeeper_users.user()
    grant = first.call(zookeeper_users.client().lock(name).acquire)
    waiting = second.begin(zookeeper_users.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 2)
    kazoo.delete(f"/tarry/tests/{name}/{nodes(kazoo, name)[1]}")
    first.call(grant.release)
    assert waiting.result(LONGEST_S).token > grant.token


@pytest.mark.parametrize("cut", CUTS)
def test_an_acquire_is_repeated_after_a_cut_connection(
    zookeeper_users: LockUsers, kazoo: Any, proxy: Proxy, name: str, cut: str
) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client(proxy.address)
    user.call(client.lock("before " + name).state)
    proxy.arm(cut, at=b"lease_ms")
    grant = user.call(client.lock(name).acquire, wait=20)
    assert proxy.struck == 1
    user.call(grant.check)
    assert len(nodes(kazoo, name)) == 1
    user.call(grant.release)
    until(lambda: nodes(kazoo, name) == [])


@pytest.mark.parametrize("cut", CUTS)
def test_a_release_is_repeated_after_a_cut_connection(
    zookeeper_users: LockUsers, kazoo: Any, proxy: Proxy, name: str, cut: str
) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client(proxy.address)
    grant = user.call(client.lock(name).acquire, wait=20)
    proxy.arm(cut, at=b"-lock-")
    user.call(grant.release)
    assert proxy.struck == 1
    until(lambda: nodes(kazoo, name) == [])


def test_a_short_disconnection_does_not_lose_the_lock(zookeeper_users: LockUsers, proxy: Proxy, name: str) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client(proxy.address)
    grant = user.call(client.lock(name).acquire, wait=20)
    proxy.cut_all()
    until(lambda: checked(user, grant))
    assert not grant.lost.is_set()
    user.call(grant.release)


def checked(user: Any, grant: Any) -> bool:
    try:
        user.call(grant.check)
    except Unavailable:
        return False
    return True


def test_a_holder_disconnected_beyond_its_session_loses_the_lock(
    zookeeper_users: LockUsers, proxy: Proxy, name: str
) -> None:
    """It learns it by its own clock, though no server can tell it."""
    user, client = zookeeper_users.user(), zookeeper_users.client(proxy.address, session_timeout=1.5, patience=0.1)
    grant = user.call(client.lock(name).acquire, wait=20)
    proxy.refusing = True
    proxy.cut_all()
    until(lambda: not checked(user, grant))  # nobody can tell: not lost, not held
    assert not grant.lost.is_set()
    assert user.call(grant.lost.wait, 20)
    with pytest.raises(LockLost, match="its connection was lost for longer than its session may live"):
        user.call(grant.check)
    proxy.refusing = False
    assert zookeeper_users.user().call(zookeeper_users.client().lock(name).acquire, wait=20).token > grant.token


def test_acquire_without_a_server_raises_unavailable(zookeeper_users: LockUsers, name: str) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client("127.0.0.1:1", patience=0.1)
    with pytest.raises(Unavailable, match="ZooKeeper did not answer"):
        user.call(client.lock(name).acquire, wait=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_locks_survive_a_zookeeper_restart(own_zookeeper: ZooKeeper, name: str, client_kind: str) -> None:
    """Its sessions outlive it: they are as long as a start takes on the slowest machine."""
    lock_users = LockUsers(client_kind, zookeeper_client(own_zookeeper.hosts))
    try:
        first, second = lock_users.user(), lock_users.user()
        lock, same = [lock_users.client(session_timeout=60, patience=60).lock(name) for _ in range(2)]
        grant = first.call(lock.acquire)
        waiting = second.begin(same.acquire, wait=120)
        until(lambda: first.call(lock.state).waiting == 1)
        own_zookeeper.restart()
        until(lambda: checked(first, grant))
        assert not waiting.done()
        first.call(grant.release)
        assert waiting.result(LONGEST_S).token > grant.token
    finally:
        lock_users.close()
