"""A lock that is released by force: its holder is notified at once, not at the next renewal."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from locks.lock_nodes import lock_channel, lock_key
from locks.lock_users import LockUsers
from tarry.errors import LockLost
from until import LONGEST_S, until


@pytest.fixture(autouse=True)
def never_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a word can tell."""
    for client_kind in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.RENEWED_EVERY_S", 3600.0)


def listens(server: Any, name: str) -> int:
    """How many listen for the lock's release, its holder among them."""
    [(_, count)] = server.pubsub_numsub(lock_channel(name))
    return int(count)


@pytest.mark.parametrize("lease", [None, "10m"])
def test_the_holder_learns_of_a_force_release_at_once(lock_users: LockUsers, name: str, lease: str | None) -> None:
    user, other = lock_users.user(), lock_users.user()
    grant = user.call(lock_users.client().lock(name).acquire, lease=lease)
    told = threading.Event()
    grant.on_lost(told.set)
    waiting = user.begin(grant.lost.wait, LONGEST_S)
    assert other.call(lock_users.client().lock(name).force_release)
    assert told.wait(LONGEST_S)
    assert waiting.result(LONGEST_S)
    with pytest.raises(LockLost, match="it was taken away"):
        user.call(grant.release)


def test_a_release_tells_that_the_lock_was_taken_away_meanwhile(lock_users: LockUsers, server: Any, name: str) -> None:
    user = lock_users.user()
    grant = user.call(lock_users.client().lock(name).acquire)
    server.delete(lock_key(name))  # and nobody hears of it
    with pytest.raises(LockLost, match="it was taken away"):
        user.call(grant.release)
    assert grant.lost.is_set()


@pytest.mark.parametrize("lease", [None, "10m"])
def test_the_holder_learns_of_a_force_unlock_by_java(
    lock_users: LockUsers, server: Any, name: str, lease: str | None
) -> None:
    user = lock_users.user()
    channel = f"redisson_lock__channel:{{{name}}}"
    grant = user.call(lock_users.client().lock(name, shared=True).acquire, lease=lease)
    until(lambda: server.pubsub_numsub(channel)[0][1])
    server.delete(name)  # as RLock.forceUnlock does
    server.publish(channel, "0")
    assert user.call(grant.lost.wait, LONGEST_S)


def test_an_unlock_message_without_an_unlock_loses_nothing(lock_users: LockUsers, server: Any, name: str) -> None:
    user = lock_users.user()
    grant = user.call(lock_users.client().lock(name).acquire)
    until(lambda: listens(server, name))
    server.pexpire(lock_key(name), 10_000)
    for _ in range(3):
        server.publish(lock_channel(name), "0")
    until(lambda: server.pttl(lock_key(name)) > 20_000)  # it was asked after, which renews it
    assert not grant.lost.is_set()
    user.call(grant.release)


def test_a_subscribed_holder_does_not_count_as_a_waiter(lock_users: LockUsers, server: Any, name: str) -> None:
    user, other, third = lock_users.user(), lock_users.user(), lock_users.user()
    lock = lock_users.client().lock(name)
    grant = user.call(lock.acquire)
    until(lambda: listens(server, name))
    until(lambda: not user.call(lock.state).waiting)
    waiting = other.begin(lock_users.client().lock(name).acquire)
    until(lambda: third.call(lock.state).waiting == 1)
    user.call(grant.release)
    other.call(waiting.result(LONGEST_S).release)


def test_a_released_grant_is_not_reported_lost(lock_users: LockUsers, server: Any, name: str) -> None:
    user, client = lock_users.user(), lock_users.client()
    grant = user.call(client.lock(name).acquire)
    until(lambda: listens(server, name))
    user.call(grant.release)
    second = user.call(lock_users.client().lock(name).acquire)
    user.call(second.release)
    assert not grant.lost.is_set()
