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
from locks.lock_users import LockUsers
from locks.nodes_below import nodes
from tarry.errors import LockLost, Unavailable
from until import until
from zookeepers import ZooKeeper

SESSION = "1"


@pytest.fixture
def line(zookeeper: ZooKeeper) -> Iterator[Proxy]:
    host, port = zookeeper.hosts.split(":")
    proxy = Proxy(None, (host, int(port)))
    yield proxy
    proxy.close()


def test_a_killed_holder_is_followed_when_its_session_ends(
    hold: Callable[..., HolderProcess], ensemble: LockUsers, zookeeper: ZooKeeper, name: str
) -> None:
    holder = hold("zookeeper", zookeeper.hosts, name, "none", SESSION)
    holder.signal(signal.SIGKILL)
    assert ensemble.hand().call(ensemble.client().lock(name).acquire, wait=20).token > holder.token


def test_a_frozen_holder_is_refused_when_it_thaws(
    hold: Callable[..., HolderProcess], ensemble: LockUsers, zookeeper: ZooKeeper, name: str
) -> None:
    holder = hold("zookeeper", zookeeper.hosts, name, "none", SESSION)
    holder.signal(signal.SIGSTOP)
    hand = ensemble.hand()
    grant = hand.call(ensemble.client().lock(name).acquire, wait=20)
    assert grant.token > holder.token
    holder.signal(signal.SIGCONT)
    assert holder.hear() == "lost True"
    assert holder.say("check") == "lock_lost"
    assert holder.say("release") == "lock_lost"
    hand.call(grant.check)


def test_an_overdue_lock_is_freed_by_the_first_who_waits(ensemble: LockUsers, kazoo: Any, name: str) -> None:
    """Its owner is stuck, but its heartbeats go on: nobody else would ever get it."""
    stuck = kazoo.create(
        f"/tests/{name}/_c_stuck-lock-", b'{"who":"stuck","lease_ms":200}', ephemeral=True, sequence=True, makepath=True
    )
    first, second = ensemble.hand(), ensemble.hand()
    waiting = first.begin(ensemble.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 2)
    behind = second.begin(ensemble.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 3)
    grant = waiting.result(20)
    assert not kazoo.exists(stuck)
    assert not behind.done()
    first.call(grant.release)
    assert behind.result(20).token > grant.token


def test_an_overdue_lock_is_freed_by_its_owners_timer(ensemble: LockUsers, kazoo: Any, name: str) -> None:
    hand = ensemble.hand()
    grant = hand.call(ensemble.client().lock(name).acquire, lease=0.2)
    told = threading.Event()
    grant.on_lost(told.set)
    assert told.wait(10)
    until(lambda: nodes(kazoo, name) == [])
    with pytest.raises(LockLost, match="its lease ended"):
        hand.call(grant.release)


def test_a_lock_without_a_lease_is_never_overdue(ensemble: LockUsers, kazoo: Any, name: str) -> None:
    """Another library's nodes stand in the same line, and have none."""
    kazoo.create(f"/tests/{name}/_c_curator-lock-", b"10.0.0.1", ephemeral=True, sequence=True, makepath=True)
    hand, client = ensemble.hand(), ensemble.client()
    assert hand.call(client.lock(name).acquire, wait=1.5) is None
    assert len(nodes(kazoo, name)) == 1
    state = hand.call(client.lock(name).state)
    assert state.held
    assert state.holder == f"session {kazoo.client_id[0]:#x}"


def test_an_expired_session_loses_the_lock(ensemble: LockUsers, zookeeper: ZooKeeper, name: str) -> None:
    from kazoo.client import KazooClient

    hand, other = ensemble.hand(), ensemble.hand()
    client = ensemble.client()
    grant = hand.call(client.lock(name).acquire)
    waiting = other.begin(ensemble.client().lock(name).acquire, wait=20)
    owner = hand.call(client._part)._session._client
    thief = KazooClient(zookeeper.hosts, client_id=owner.client_id)
    thief.start()
    thief.stop()  # ends the session that both are
    thief.close()
    assert hand.call(grant.lost.wait, 20)
    with pytest.raises(LockLost):
        hand.call(grant.check)
    assert waiting.result(20).token > grant.token
    other.call(waiting.result().release)
    assert hand.call(client.lock(name).acquire, wait=20).token > waiting.result().token


def test_an_operator_deletes_the_node(ensemble: LockUsers, kazoo: Any, name: str) -> None:
    hand, client = ensemble.hand(), ensemble.client()
    grant = hand.call(client.lock(name).acquire)
    kazoo.delete(f"/tests/{name}/{nodes(kazoo, name)[0]}")
    assert hand.call(grant.lost.wait, 10)
    with pytest.raises(LockLost, match="its node was deleted"):
        hand.call(grant.release)
    assert hand.call(client.lock(name).acquire, wait=5).token > grant.token


def test_an_operator_deletes_the_node_of_one_who_waits(ensemble: LockUsers, kazoo: Any, name: str) -> None:
    first, second = ensemble.hand(), ensemble.hand()
    grant = first.call(ensemble.client().lock(name).acquire)
    waiting = second.begin(ensemble.client().lock(name).acquire, wait=20)
    until(lambda: len(nodes(kazoo, name)) == 2)
    kazoo.delete(f"/tests/{name}/{nodes(kazoo, name)[1]}")
    first.call(grant.release)
    assert waiting.result(20).token > grant.token


@pytest.mark.parametrize("cut", CUTS)
def test_an_acquire_whose_line_is_cut_is_made_up_for(
    ensemble: LockUsers, kazoo: Any, line: Proxy, name: str, cut: str
) -> None:
    hand, client = ensemble.hand(), ensemble.client(line.address)
    hand.call(client.lock("before " + name).state)
    line.arm(cut, at=b"lease_ms")
    grant = hand.call(client.lock(name).acquire, wait=20)
    assert line.struck == 1
    hand.call(grant.check)
    assert len(nodes(kazoo, name)) == 1
    hand.call(grant.release)
    until(lambda: nodes(kazoo, name) == [])


@pytest.mark.parametrize("cut", CUTS)
def test_a_release_whose_line_is_cut_is_made_up_for(
    ensemble: LockUsers, kazoo: Any, line: Proxy, name: str, cut: str
) -> None:
    hand, client = ensemble.hand(), ensemble.client(line.address)
    grant = hand.call(client.lock(name).acquire, wait=20)
    line.arm(cut, at=b"-lock-")
    hand.call(grant.release)
    assert line.struck == 1
    until(lambda: nodes(kazoo, name) == [])


def test_a_line_that_breaks_while_it_is_held_is_no_loss(ensemble: LockUsers, line: Proxy, name: str) -> None:
    hand, client = ensemble.hand(), ensemble.client(line.address)
    grant = hand.call(client.lock(name).acquire, wait=20)
    line.cut_all()
    until(lambda: checked(hand, grant))
    assert not grant.lost.is_set()
    hand.call(grant.release)


def checked(hand: Any, grant: Any) -> bool:
    try:
        hand.call(grant.check)
    except Unavailable:
        return False
    return True


def test_who_is_cut_off_for_longer_than_its_session_has_lost_the_lock(
    ensemble: LockUsers, line: Proxy, name: str
) -> None:
    """It learns it by its own clock, though no server can tell it."""
    hand, client = ensemble.hand(), ensemble.client(line.address, session_timeout=1.5, patience=0.1)
    grant = hand.call(client.lock(name).acquire, wait=20)
    line.refusing = True
    line.cut_all()
    until(lambda: not checked(hand, grant))  # nobody can tell: not lost, not held
    assert not grant.lost.is_set()
    assert hand.call(grant.lost.wait, 20)
    with pytest.raises(LockLost, match="its connection was lost for longer than its session may live"):
        hand.call(grant.check)
    line.refusing = False
    assert ensemble.hand().call(ensemble.client().lock(name).acquire, wait=20).token > grant.token


def test_without_a_server_acquire_says_so(ensemble: LockUsers, name: str) -> None:
    hand, client = ensemble.hand(), ensemble.client("127.0.0.1:1", patience=0.1)
    with pytest.raises(Unavailable, match="ZooKeeper did not answer"):
        hand.call(client.lock(name).acquire, wait=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("face", ["sync", "async"])
def test_zookeeper_is_restarted(own_zookeeper: ZooKeeper, name: str, face: str) -> None:
    """Its sessions outlive it: they are as long as a start takes on the slowest machine."""
    party = LockUsers(face, zookeeper_client(own_zookeeper.hosts))
    try:
        first, second = party.hand(), party.hand()
        lock, same = [party.client(session_timeout=60, patience=60).lock(name) for _ in range(2)]
        grant = first.call(lock.acquire)
        waiting = second.begin(same.acquire, wait=120)
        until(lambda: first.call(lock.state).waiting == 1)
        own_zookeeper.restart()
        until(lambda: checked(first, grant))
        assert not waiting.done()
        first.call(grant.release)
        assert waiting.result(60).token > grant.token
    finally:
        party.close()
