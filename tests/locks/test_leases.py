"""What a lock is, wherever it is kept: one holder, who may take it again; grants, tokens, leases and losing."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from locks.lock_users import LockUsers
from tarry.errors import BadInput, LockLost, NotAcquired
from until import until

SOON = 0.05


@pytest.fixture
def one(keepers: LockUsers) -> Any:
    return keepers.client()


@pytest.fixture
def other(keepers: LockUsers) -> Any:
    return keepers.client()


def test_one_has_it_and_the_other_has_not(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire)
    assert hand.call(other.lock(name).acquire, wait=0) is None
    hand.call(grant.release)
    second = hand.call(other.lock(name).acquire, wait=0)
    assert second.token > grant.token
    hand.call(second.release)


def test_two_threads_or_tasks_of_a_client_exclude_each_other(keepers: LockUsers, one: Any, name: str) -> None:
    first, second = keepers.hand(), keepers.hand()
    grant = first.call(one.lock(name).acquire)
    assert second.call(one.lock(name).acquire, wait=0) is None
    assert second.call(one.lock(name).acquire, wait=SOON) is None
    first.call(grant.release)
    assert second.call(one.lock(name).acquire, wait=0) is not None


def test_its_holder_takes_it_again_by_any_lock_object_of_the_name(
    keepers: LockUsers, one: Any, other: Any, name: str
) -> None:
    hand, stranger = keepers.hand(), keepers.hand()
    outer = hand.call(one.lock(name).acquire)
    inner = hand.call(one.lock(name).acquire, wait=0)
    assert inner.token == outer.token
    assert hand.call(one.lock(name).held)
    hand.call(inner.release)
    hand.call(inner.release)  # twice is once
    assert stranger.call(other.lock(name).acquire, wait=0) is None
    hand.call(outer.release)
    assert not hand.call(one.lock(name).held)
    assert stranger.call(other.lock(name).acquire, wait=0) is not None


def test_a_block_holds_it_and_gives_it_back(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand = keepers.hand()
    lock = one.lock(name)
    grant = hand.enter(lock)
    inner = hand.enter(lock)
    assert inner.token == grant.token
    hand.leave(lock)
    with pytest.raises(NotAcquired, match=f"The lock {name} is not free within 0.05 s"):
        hand.enter(other.lock(name, wait=SOON))
    hand.leave(lock)
    with pytest.raises(NotAcquired, match="is not held by this thread or task"):
        hand.call(lock.release)


def test_who_waits_gets_it_when_it_is_given_back(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    first, second, third = keepers.hand(), keepers.hand(), keepers.hand()
    grant = first.call(one.lock(name).acquire)
    local, remote = second.begin(one.lock(name).acquire), third.begin(other.lock(name).acquire)
    assert not local.done()
    assert not remote.done()
    first.call(grant.release)
    tokens = []
    for _ in range(2):
        done, hand = next((f, h) for f, h in _done((local, second), (remote, third)))
        tokens.append(done.result().token)
        hand.call(done.result().release)
        (local, second), (remote, third) = ((remote, third),) * 2 if done is local else ((local, second),) * 2
    assert grant.token < tokens[0] < tokens[1]


def _done(*pairs: Any) -> Any:
    return until(lambda: [pair for pair in pairs if pair[0].done()], "somebody gets it")


def test_only_its_holder_gives_it_back(keepers: LockUsers, one: Any, name: str) -> None:
    first, second = keepers.hand(), keepers.hand()
    grant = first.call(one.lock(name).acquire)
    with pytest.raises(NotAcquired, match="it must be released there"):
        second.call(grant.release)
    with pytest.raises(NotAcquired, match="is not held by this thread or task"):
        second.call(one.lock(name).release)
    first.call(grant.check)
    first.call(one.lock(name).release)


def test_a_lease_ends_by_itself_and_its_owner_learns_it(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand, stranger = keepers.hand(), keepers.hand()
    grant = hand.call(one.lock(name).acquire, lease=0.2)
    told = threading.Event()
    grant.on_lost(told.set)
    assert timedelta(0) < grant.remaining <= timedelta(seconds=0.2)
    waiting = stranger.begin(other.lock(name).acquire, wait=5)
    assert hand.call(grant.lost.wait, 5)
    assert told.wait(5)
    assert grant.remaining == timedelta(0)
    assert waiting.result(5).token > grant.token
    for refused in (grant.check, grant.release):
        with pytest.raises(LockLost, match=f"The lock {name} is no longer held: its lease ended"):
            hand.call(refused)
    stranger.call(waiting.result().release)


def test_a_loss_is_told_to_who_asks_late(keepers: LockUsers, one: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire, lease=0.05)
    assert hand.call(grant.lost.wait, 5)
    told = threading.Event()
    hand.call(grant.on_lost, told.set)
    assert told.wait(5)


def test_without_a_lease_it_stays(keepers: LockUsers, one: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire)
    assert grant.remaining > timedelta(seconds=25)
    assert not hand.call(grant.lost.wait, 0.01)
    assert not grant.lost.is_set()
    hand.call(grant.release)
    assert grant.remaining == timedelta(0)


def test_taking_it_again_for_longer_lengthens_the_lease(keepers: LockUsers, one: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire, lease=0.3)
    again = hand.call(one.lock(name).acquire, lease=30)
    assert grant.remaining > timedelta(seconds=25)
    shorter = hand.call(one.lock(name).acquire, lease=0.01)
    assert grant.remaining > timedelta(seconds=25)
    for held in (shorter, again):
        hand.call(held.release)
    hand.call(grant.check)
    hand.call(grant.release)


def test_an_operator_takes_it_away_and_its_owner_learns_it(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire)
    assert hand.call(other.lock(name).force_release)
    assert not hand.call(other.lock(name).force_release)
    with pytest.raises(LockLost, match=r"it was taken away|its node was deleted"):  # by its answer, or by its watch
        hand.call(grant.check)
    assert hand.call(grant.lost.wait, 5)
    again = hand.call(one.lock(name).acquire, wait=0)
    assert again.token > grant.token
    with pytest.raises(LockLost):
        hand.call(grant.release)
    hand.call(again.check)


def test_taking_again_what_was_taken_away_is_taking_anew(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand = keepers.hand()
    grant = hand.call(one.lock(name).acquire)
    hand.call(other.lock(name).force_release)
    again = hand.call(one.lock(name).acquire, wait=1)
    assert again.token > grant.token
    assert grant.lost.is_set()
    hand.call(again.release)


def test_its_state_is_told(keepers: LockUsers, one: Any, other: Any, name: str) -> None:
    hand = keepers.hand()
    state = hand.call(one.lock(name).state)
    assert (state.name, state.held, state.holder, state.depth) == (name, False, None, 0)
    grant = hand.call(one.lock(name).acquire, lease=60)
    hand.call(one.lock(name).acquire)
    state = hand.call(other.lock(name).state)
    assert state.held
    assert state.holder
    assert state.token == grant.token


def test_a_closed_client_gives_back_what_it_held(keepers: LockUsers, other: Any, name: str) -> None:
    hand = keepers.hand()
    client = keepers.client()
    grant = hand.call(client.lock(name).acquire)
    hand.call(client.close)
    assert grant.lost.is_set()
    assert hand.call(other.lock(name).acquire, wait=5) is not None


def test_a_lock_that_nobody_can_give_back_is_given_back(
    keepers: LockUsers, one: Any, other: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread or task has ended, and left no grant."""
    for face in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{face}.lock_watchdog.LONGEST_SLEEP_S", 0.1)
    gone, hand = keepers.hand(), keepers.hand()

    def forget(grant: Any) -> bool:
        return grant is not None

    assert forget(gone.call(one.lock(name).acquire))
    gone.end()
    assert hand.call(other.lock(name).acquire, wait=20) is not None


@pytest.mark.parametrize("rounds", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_sixteen_count_an_unprotected_counter(keepers: LockUsers, one: Any, other: Any, name: str, rounds: int) -> None:
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

    chosen = work if keepers.face == "sync" else work_async
    hands = [keepers.hand() for _ in range(16)]
    for done in [hand.begin(chosen, (one, other)[i % 2].lock(name)) for i, hand in enumerate(hands)]:
        done.result(60)
    assert count == 16 * rounds
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("options", "what"), [({"lease": 0}, "lease"), ({"lease": -1}, "lease"), ({"wait": -1}, "wait")]
)
def test_what_cannot_be_is_refused(keepers: LockUsers, one: Any, name: str, options: Any, what: str) -> None:
    hand = keepers.hand()
    with pytest.raises(BadInput, match=what):
        hand.call(one.lock(name).acquire, **options)
    with pytest.raises(BadInput, match="lock"):
        hand.call(one.lock("").acquire)
