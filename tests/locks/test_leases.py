"""Locks on every backend: one holder, reentrance, grants, tokens, leases, losing."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from locks.lock_users import LockUsers
from tarry.errors import BadInput, LockLost, NotAcquired, Unavailable
from until import LONGEST_S, until

SOON = 0.05


@pytest.fixture
def one(any_lock_users: LockUsers) -> Any:
    return any_lock_users.client()


@pytest.fixture
def other(any_lock_users: LockUsers) -> Any:
    return any_lock_users.client()


def test_a_lock_has_one_holder(any_lock_users: LockUsers, one: Any, other: Any, name: str) -> None:
    """Promise: Locks."""
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire)
    assert user.call(other.lock(name).acquire, wait=0) is None
    user.call(grant.release)
    second = user.call(other.lock(name).acquire, wait=0)
    assert second.token > grant.token
    user.call(second.release)


def test_two_threads_or_tasks_of_a_client_exclude_each_other(any_lock_users: LockUsers, one: Any, name: str) -> None:
    first, second = any_lock_users.user(), any_lock_users.user()
    grant = first.call(one.lock(name).acquire)
    assert second.call(one.lock(name).acquire, wait=0) is None
    assert second.call(one.lock(name).acquire, wait=SOON) is None
    first.call(grant.release)
    assert second.call(one.lock(name).acquire, wait=0) is not None


def test_a_lock_is_reentrant_across_lock_objects_of_one_name(
    any_lock_users: LockUsers, one: Any, other: Any, name: str
) -> None:
    user, stranger = any_lock_users.user(), any_lock_users.user()
    outer = user.call(one.lock(name).acquire)
    inner = user.call(one.lock(name).acquire, wait=0)
    assert inner.token == outer.token
    assert user.call(one.lock(name).held)
    user.call(inner.release)
    user.call(inner.release)  # twice is once
    assert stranger.call(other.lock(name).acquire, wait=0) is None
    user.call(outer.release)
    assert not user.call(one.lock(name).held)
    assert stranger.call(other.lock(name).acquire, wait=0) is not None


def test_a_with_block_acquires_and_releases(any_lock_users: LockUsers, one: Any, other: Any, name: str) -> None:
    user = any_lock_users.user()
    lock = one.lock(name)
    grant = user.enter(lock)
    inner = user.enter(lock)
    assert inner.token == grant.token
    user.leave(lock)
    with pytest.raises(NotAcquired, match=f"The lock {name} is not free within 0.05 s"):
        user.enter(other.lock(name, wait=SOON))
    user.leave(lock)
    with pytest.raises(NotAcquired, match="is not held by this thread or task"):
        user.call(lock.release)


def test_a_waiter_gets_the_lock_when_it_is_released(any_lock_users: LockUsers, one: Any, other: Any, name: str) -> None:
    first, second, third = any_lock_users.user(), any_lock_users.user(), any_lock_users.user()
    grant = first.call(one.lock(name).acquire)
    local, remote = second.begin(one.lock(name).acquire), third.begin(other.lock(name).acquire)
    assert not local.done()
    assert not remote.done()
    first.call(grant.release)
    tokens = []
    for _ in range(2):
        done, user = next((f, h) for f, h in _done((local, second), (remote, third)))
        tokens.append(done.result().token)
        user.call(done.result().release)
        (local, second), (remote, third) = ((remote, third),) * 2 if done is local else ((local, second),) * 2
    assert grant.token < tokens[0] < tokens[1]


def _done(*pairs: Any) -> Any:
    return until(lambda: [pair for pair in pairs if pair[0].done()], "somebody gets it")


def test_only_the_holder_can_release(any_lock_users: LockUsers, one: Any, name: str) -> None:
    first, second = any_lock_users.user(), any_lock_users.user()
    grant = first.call(one.lock(name).acquire)
    with pytest.raises(NotAcquired, match="it must be released there"):
        second.call(grant.release)
    with pytest.raises(NotAcquired, match="is not held by this thread or task"):
        second.call(one.lock(name).release)
    first.call(grant.check)
    first.call(one.lock(name).release)


def test_a_lease_expires_and_its_holder_is_notified(any_lock_users: LockUsers, one: Any, other: Any, name: str) -> None:
    user, stranger = any_lock_users.user(), any_lock_users.user()
    grant = user.call(one.lock(name).acquire, lease=0.2)
    told = threading.Event()
    grant.on_lost(told.set)
    assert grant.remaining <= timedelta(seconds=0.2)
    waiting = stranger.begin(other.lock(name).acquire, wait=5)
    assert user.call(grant.lost.wait, 5)
    assert told.wait(5)
    assert grant.remaining == timedelta(0)
    assert waiting.result(5).token > grant.token
    for refused in (grant.check, grant.release):
        with pytest.raises(LockLost, match=f"The lock {name} is no longer held: its lease ended"):
            user.call(refused)
    stranger.call(waiting.result().release)


def test_a_late_on_lost_callback_is_called(any_lock_users: LockUsers, one: Any, name: str) -> None:
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire, lease=0.05)
    assert user.call(grant.lost.wait, 5)
    told = threading.Event()
    user.call(grant.on_lost, told.set)
    assert told.wait(5)


def test_a_lock_without_a_lease_stays_held(any_lock_users: LockUsers, one: Any, name: str) -> None:
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire)
    assert grant.remaining > timedelta(seconds=25)
    assert not user.call(grant.lost.wait, 0.01)
    assert not grant.lost.is_set()
    user.call(grant.release)
    assert grant.remaining == timedelta(0)


def test_reacquiring_with_a_longer_lease_extends_it(any_lock_users: LockUsers, one: Any, name: str) -> None:
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire, lease=20)
    assert timedelta(0) < grant.remaining <= timedelta(seconds=20)
    again = user.call(one.lock(name).acquire, lease=30)
    assert grant.remaining > timedelta(seconds=25)
    shorter = user.call(one.lock(name).acquire, lease=0.01)
    assert grant.remaining > timedelta(seconds=25)
    for held in (shorter, again):
        user.call(held.release)
    user.call(grant.check)
    user.call(grant.release)


def test_a_force_release_raises_lock_lost_at_the_holder(
    any_lock_users: LockUsers, one: Any, other: Any, name: str
) -> None:
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire)
    assert user.call(other.lock(name).force_release)
    assert not user.call(other.lock(name).force_release)
    with pytest.raises(LockLost, match=r"it was taken away|its node was deleted"):  # by its answer, or by its watch
        user.call(grant.check)
    assert user.call(grant.lost.wait, 5)
    again = user.call(one.lock(name).acquire, wait=0)
    assert again.token > grant.token
    with pytest.raises(LockLost):
        user.call(grant.release)
    user.call(again.check)


def test_reacquiring_after_a_force_release_is_a_new_grant(
    any_lock_users: LockUsers, one: Any, other: Any, name: str
) -> None:
    user = any_lock_users.user()
    grant = user.call(one.lock(name).acquire)
    user.call(other.lock(name).force_release)
    again = user.call(one.lock(name).acquire, wait=1)
    assert again.token > grant.token
    assert grant.lost.is_set()
    user.call(again.release)


def test_state_shows_holder_token_and_depth(any_lock_users: LockUsers, one: Any, other: Any, name: str) -> None:
    user = any_lock_users.user()
    state = user.call(one.lock(name).state)
    assert (state.name, state.held, state.holder, state.depth) == (name, False, None, 0)
    grant = user.call(one.lock(name).acquire, lease=60)
    user.call(one.lock(name).acquire)
    state = user.call(other.lock(name).state)
    assert state.held
    assert state.holder
    assert state.token == grant.token


def test_a_closed_client_releases_its_locks(any_lock_users: LockUsers, other: Any, name: str) -> None:
    user = any_lock_users.user()
    client = any_lock_users.client()
    grant = user.call(client.lock(name).acquire)
    user.call(client.close)
    assert grant.lost.is_set()
    assert user.call(other.lock(name).acquire, wait=5) is not None


def test_closing_a_client_ends_the_acquisitions_that_wait(any_lock_users: LockUsers, other: Any, name: str) -> None:
    holder, users = any_lock_users.user(), [any_lock_users.user() for _ in range(2)]
    client = any_lock_users.client()
    assert holder.call(other.lock(name).acquire) is not None
    waiting = [user.begin(client.lock(name).acquire) for user in users]
    until(lambda: holder.call(other.lock(name).state).waiting)
    holder.call(client.close)
    for acquisition in waiting:
        with pytest.raises(Unavailable, match="The client was closed"):
            acquisition.result(LONGEST_S)


def test_a_lock_of_an_ended_thread_or_task_is_released(
    any_lock_users: LockUsers, one: Any, other: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread or task has ended, and left no grant."""
    for client_kind in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{client_kind}.lock_watchdog.LONGEST_SLEEP_S", 0.1)
    gone, user = any_lock_users.user(), any_lock_users.user()

    def forget(grant: Any) -> bool:
        return grant is not None

    assert forget(gone.call(one.lock(name).acquire))
    gone.end()
    assert user.call(other.lock(name).acquire, wait=20) is not None


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [4, pytest.param(100, marks=pytest.mark.long)])
def test_sixteen_threads_or_tasks_count_under_one_lock(
    any_lock_users: LockUsers, one: Any, other: Any, name: str, rounds: int
) -> None:
    count = 0
    tokens: list[int] = []

    def step(grant: Any) -> None:
        nonlocal count
        seen = count
        time.sleep(0)
        tokens.append(grant.token)
        count = seen + 1

    def work(lock: Any) -> None:
        for _ in range(rounds):
            with lock as grant:
                step(grant)

    async def work_async(lock: Any) -> None:
        for _ in range(rounds):
            async with lock as grant:
                step(grant)

    chosen = work if any_lock_users.client_kind == "sync" else work_async
    hands = [any_lock_users.user() for _ in range(16)]
    for done in [user.begin(chosen, (one, other)[i % 2].lock(name)) for i, user in enumerate(hands)]:
        done.result(LONGEST_S)
    assert count == 16 * rounds
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("options", "what"), [({"lease": 0}, "lease"), ({"lease": -1}, "lease"), ({"wait": -1}, "wait")]
)
def test_invalid_options_are_refused(any_lock_users: LockUsers, one: Any, name: str, options: Any, what: str) -> None:
    user = any_lock_users.user()
    with pytest.raises(BadInput, match=what):
        user.call(one.lock(name).acquire, **options)
    with pytest.raises(BadInput, match="lock"):
        user.call(one.lock("").acquire)
