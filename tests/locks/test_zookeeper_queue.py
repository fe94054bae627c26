"""The line for a lock on ZooKeeper: in order, each watching the one before, one deadline for all of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from locks.lock_nodes import nodes
from locks.lock_users import LockUsers
from tarry.connections.zookeeper_session import ZooKeeperSession
from tarry.errors import BadInput
from tarry.verbs.locks.zookeeper_requests import CreateNode, DeleteNode, ListChildren, ReadNode
from until import LONGEST_S, until
from zookeepers import ZooKeeper


def test_waiters_are_served_in_order_and_watch_only_their_predecessor(
    zookeeper_users: LockUsers, zookeeper: ZooKeeper, kazoo: Any, name: str
) -> None:
    first = zookeeper_users.user()
    grant = first.call(zookeeper_users.client().lock(name).acquire)
    hands, waiting = [], []
    served: list[int] = []
    for i in range(6):
        hands.append(zookeeper_users.user())
        waiting.append(hands[i].begin(zookeeper_users.client().lock(name).acquire, wait=30))
        until(lambda want=i + 2: len(nodes(kazoo, name)) == want)
    paths = [f"/tarry/tests/{name}/{node}" for node in nodes(kazoo, name)]

    def watchers() -> list[int]:
        told = zookeeper.ask("wchp").decode().splitlines()
        return [
            sum(1 for row in _below(told, told.index(path)) if row.startswith("\t")) if path in told else 0
            for path in paths
        ]

    until(lambda: watchers()[1:] == [1, 1, 1, 1, 1, 0])
    first.call(grant.release)
    for i, done in enumerate(waiting):
        served.append(done.result(LONGEST_S).token)
        assert not any(later.done() for later in waiting[i + 1 :])
        hands[i].call(done.result().release)
    assert served == sorted(served)


def test_the_next_holder_of_a_lock_only_lists_the_nodes(
    zookeeper_users: LockUsers, kazoo: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not read its own: no other session can have made a node of that name."""
    first, second = zookeeper_users.user(), zookeeper_users.user()
    grant = first.call(zookeeper_users.client().lock(name).acquire)
    asked, watched, start_request = list[Any](), list[Any](), ZooKeeperSession.start_request

    def noting(session: ZooKeeperSession, op: Any) -> Any:
        watches = isinstance(op, ReadNode) and op.on_change is not None
        (watched if watches else asked).append(type(op))
        return start_request(session, op)

    with monkeypatch.context() as patched:
        patched.setattr(ZooKeeperSession, "start_request", noting)
        waiting = second.begin(zookeeper_users.client().lock(name).acquire, wait=30)
        until(lambda: watched)
        first.call(grant.release)
        taken = waiting.result(LONGEST_S)
    assert set(asked) == {CreateNode, ListChildren, DeleteNode}
    second.call(taken.release)


def _below(lines: list[str], at: int) -> list[str]:
    rest = lines[at + 1 :]
    end = next((i for i, row in enumerate(rest) if not row.startswith("\t")), len(rest))
    return rest[:end]


@pytest.mark.slow
@pytest.mark.parametrize("waiters", [60, pytest.param(200, marks=pytest.mark.long)])
def test_many_waiters_each_get_the_lock_once(zookeeper_users: LockUsers, kazoo: Any, name: str, waiters: int) -> None:
    clients = [zookeeper_users.client() for _ in range(10)]
    served: list[int] = []

    def work(lock: Any) -> None:
        with lock as held:
            served.append(held.token)

    async def work_async(lock: Any) -> None:
        async with lock as held:
            served.append(held.token)

    chosen = work if zookeeper_users.client_kind == "sync" else work_async
    hands = [zookeeper_users.user() for _ in range(waiters)]
    for done in [user.begin(chosen, clients[i % 10].lock(name)) for i, user in enumerate(hands)]:
        done.result(LONGEST_S)
    assert len(served) == waiters
    assert served == sorted(set(served))
    assert nodes(kazoo, name) == []


def test_one_deadline_covers_the_whole_acquire(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    """kazoo's own Lock begins its timeout again with each predecessor."""
    first, second, third = zookeeper_users.user(), zookeeper_users.user(), zookeeper_users.user()
    grant = first.call(zookeeper_users.client().lock(name).acquire)
    short = second.begin(zookeeper_users.client().lock(name).acquire, wait=0.4)
    until(lambda: len(nodes(kazoo, name)) == 2)
    began = time.monotonic()
    assert third.call(zookeeper_users.client().lock(name).acquire, wait=0.6) is None
    assert time.monotonic() - began < 20 * 0.6
    assert short.result() is None
    assert len(nodes(kazoo, name)) == 1
    first.call(grant.check)


def test_closing_the_client_releases_every_lock(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client()
    grants = [user.call(client.lock(f"{name}/{i}").acquire) for i in range(3)]
    user.call(client.close)
    assert all(grant.lost.is_set() for grant in grants)
    assert [nodes(kazoo, f"{name}/{i}") for i in range(3)] == [[], [], []]
    with pytest.raises(BadInput, match="closed"):
        user.call(client.lock(name).acquire, wait=5)


@pytest.mark.parametrize("bad", ["", "a//b", "/a", "a/", "a/../b", "a/x-lock-0000000001"])
def test_names_that_are_not_valid_paths_are_refused(zookeeper_users: LockUsers, bad: str) -> None:
    with pytest.raises(BadInput, match="lock"):
        zookeeper_users.user().call(zookeeper_users.client().lock(bad).acquire)
