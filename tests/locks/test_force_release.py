"""A lock that is taken away: its holder hears it at once, not when it is renewed next."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from locks.lock_users import LONG_S, LockUsers
from tarry.errors import LockLost
from until import until


@pytest.fixture(autouse=True)
def never_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a word can tell."""
    for face in ("blocking", "awaited"):
        monkeypatch.setattr(f"tarry.clients.{face}.lock_watchdog.RENEWED_EVERY_S", 3600.0)


def listens(raw: Any, name: str) -> int:
    """How many listen for the lock's release, its holder among them."""
    [(_, count)] = raw.pubsub_numsub(f"redisson_lock__channel:{{{name}}}")
    return int(count)


@pytest.mark.parametrize("lease", [None, "10m"])
def test_its_holder_is_told_at_once(party: LockUsers, name: str, lease: str | None) -> None:
    hand, other = party.hand(), party.hand()
    grant = hand.call(party.client().lock(name).acquire, lease=lease)
    told = threading.Event()
    grant.on_lost(told.set)
    waiting = hand.begin(grant.lost.wait, LONG_S)
    assert other.call(party.client().lock(name).force_release)
    assert told.wait(LONG_S)
    assert waiting.result(LONG_S)
    with pytest.raises(LockLost, match="it was taken away"):
        hand.call(grant.release)


@pytest.mark.parametrize("lease", [None, "10m"])
def test_java_that_takes_it_away_is_heard_too(party: LockUsers, raw: Any, name: str, lease: str | None) -> None:
    hand = party.hand()
    grant = hand.call(party.client().lock(name).acquire, lease=lease)
    until(lambda: listens(raw, name))
    raw.delete(name)  # as RLock.forceUnlock does
    raw.publish(f"redisson_lock__channel:{{{name}}}", "0")
    assert hand.call(grant.lost.wait, LONG_S)


def test_a_word_without_a_deed_takes_nothing(party: LockUsers, raw: Any, name: str) -> None:
    hand = party.hand()
    grant = hand.call(party.client().lock(name).acquire)
    until(lambda: listens(raw, name))
    raw.pexpire(name, 10_000)
    for _ in range(3):
        raw.publish(f"redisson_lock__channel:{{{name}}}", "0")
    until(lambda: raw.pttl(name) > 20_000)  # it was asked after, which renews it
    assert not grant.lost.is_set()
    hand.call(grant.release)


def test_a_holder_that_listens_is_not_one_who_waits(party: LockUsers, raw: Any, name: str) -> None:
    hand, other, third = party.hand(), party.hand(), party.hand()
    lock = party.client().lock(name)
    grant = hand.call(lock.acquire)
    until(lambda: listens(raw, name))
    until(lambda: not hand.call(lock.state).waiting)
    waiting = other.begin(party.client().lock(name).acquire)
    until(lambda: third.call(lock.state).waiting == 1)
    hand.call(grant.release)
    other.call(waiting.result(LONG_S).release)


def test_what_was_given_back_is_not_listened_for(party: LockUsers, raw: Any, name: str) -> None:
    hand, client = party.hand(), party.client()
    grant = hand.call(client.lock(name).acquire)
    until(lambda: listens(raw, name))
    hand.call(grant.release)
    second = hand.call(party.client().lock(name).acquire)
    hand.call(second.release)
    assert not grant.lost.is_set()
