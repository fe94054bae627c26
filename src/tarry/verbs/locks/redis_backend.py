"""Locks kept in Redis, as Redisson's RLock keeps them: Java and Python exclude one another.

A lock without a lease is renewed every ten seconds for thirty, as Redisson's watchdog does, all of a client at once. Those
who wait are told on Redisson's channel; a word that was lost costs no more than LOOK_AROUND_S, or the rest of a lease.

Who has had a lock for HEARD_AFTER_S listens to that channel too: a word there means that somebody, tarry or Java, took the
lock away, and is asked after at once. Short holds do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tarry.core.requests import Batch, ScriptCall, ask
from tarry.errors import BadInput, TarryError
from tarry.values.durations import MILLISECOND
from tarry.values.keys import LockKeys, holders_channel
from tarry.verbs.locks import lock_scripts
from tarry.verbs.locks.lock_steps import Acquired, Busy, Steps
from tarry.verbs.locks.lock_table import Acquisition, Hold, LockTable, Wake
from tarry.verbs.locks.models import LockState

WATCHDOG_MS, RENEWED_EVERY_S = 30_000, 10.0
RECHECK_S = 10.0
SUBSCRIBE_AFTER_S = 0.25
SOON_S = 0.001
"""A lease of a whole number of milliseconds is over only after them."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """From now on ``ring`` is called with each word on the channel, and once when it is listened to."""

    channel: bytes
    wake: Wake


class RedisBackend:
    """Keeps locks in Redis."""

    def __init__(
        self,
        table: LockTable,
        unsubscribe: Callable[[bytes, Wake], None],
        map_name: Callable[[str], str],
        *,
        cluster: bool,
    ) -> None:
        """``leave`` ends what ``Subscribe`` began; ``mapped`` names locks as Java's ``NameMapper`` does."""
        self._map_name = map_name
        self._table = table
        self._unsubscribe_from = unsubscribe
        self._cluster = cluster
        self._now = table.now
        self._subscriptions: set[Acquisition] = set()
        self._holder_channels: dict[Acquisition, Wake] = {}
        self._suspects: set[Acquisition] = set()

    def keys_of(self, name: str) -> LockKeys:
        return lock_scripts.keys_of(name, self._map_name, cluster=self._cluster)

    def prepare(self, acquisition: Acquisition) -> None:
        acquisition.backend_state = self.keys_of(acquisition.name)

    def try_acquire(self, acquisition: Acquisition) -> Steps[Acquired | Busy]:
        asked = self._now()
        lease = _lease_ms(acquisition.lease_us)
        answer = yield from ask(
            lock_scripts.acquire_lock(acquisition.backend_state, acquisition.id, 1, lease, sharded=self._cluster)
        )
        if answer.token > 0:
            return Acquired(answer.token, asked + lease / 1000, check_at=self._now() + SUBSCRIBE_AFTER_S)
        if acquisition not in self._subscriptions:
            self._subscriptions.add(acquisition)
            yield Subscribe(acquisition.backend_state.channel, acquisition.wake)
        rest = answer.wait_ms / 1000 + SOON_S if answer.wait_ms >= 0 else RECHECK_S
        return Busy(self._now() + min(rest, RECHECK_S))

    def stop_waiting(self, acquisition: Acquisition) -> None:
        if acquisition in self._subscriptions:
            self._subscriptions.discard(acquisition)
            self._unsubscribe_from(acquisition.backend_state.channel, acquisition.wake)

    def reenter(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        asked = self._now()
        lease = _lease_ms(lease_us)
        acquisition = hold.acquisition
        call = lock_scripts.acquire_lock(
            acquisition.backend_state, acquisition.id, hold.depth + 1, lease, sharded=self._cluster
        )
        answer = yield from ask(call)
        if answer.token == hold.token:
            hold.until = max(hold.until, asked + lease / 1000)
            hold.renewed = hold.renewed or lease_us is None
        return answer.token == hold.token

    def release(self, hold: Hold, depth_left: int) -> Steps[bool]:
        if not depth_left:
            self._unsubscribe(hold.acquisition)  # the next word is his own
        return (
            yield from ask(
                lock_scripts.release_lock(
                    hold.acquisition.backend_state, hold.acquisition.id, depth_left, sharded=self._cluster
                )
            )
        )

    def give_up(self, acquisition: Acquisition) -> Steps[None]:  # noqa: ARG002  # nothing is left on the server
        yield from ()

    def remove(self, acquisition: Acquisition) -> Steps[None]:
        """What is left is at most a hold that nobody knows of."""
        self._unsubscribe(acquisition)
        answers = yield Batch(
            [lock_scripts.release_lock(acquisition.backend_state, acquisition.id, 0, sharded=self._cluster)]
        )
        if isinstance(answers[0], TarryError):
            raise answers[0]

    def is_held(self, hold: Hold) -> Steps[bool]:
        try:
            seen = yield from ask(lock_scripts.read_lock(hold.name, hold.acquisition.backend_state))
        except BadInput:  # something else has its name now
            return False
        return seen.holder == hold.acquisition.id.decode() and seen.token == hold.token

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """All of them, or those of which there was a word, at once; what is no longer theirs is lost."""
        holds = list(holds)
        for hold in holds:
            yield from self._subscribe(hold)
        asked = self._now()
        chosen = [hold for hold in holds if self._is_suspect(hold.acquisition) or (due and hold.renewed)]
        if not chosen:
            return
        answers: list[bool | TarryError] = yield Batch([_check_hold(hold) for hold in chosen])
        for hold, answer in zip(chosen, answers, strict=True):
            if answer is False:
                self._table.lose_hold(hold, "it was taken away")
            elif answer is not True:
                self._suspects.add(hold.acquisition)
            elif hold.renewed:
                hold.until = max(hold.until, asked + WATCHDOG_MS / 1000)

    # ── words about locks that are held ──────────────────────────────────────────────────────────────────────────────

    def _subscribe(self, hold: Hold) -> Steps[None]:
        acquisition = hold.acquisition
        if acquisition in self._holder_channels:
            return
        self._holder_channels[acquisition] = ring = partial(self._suspect_lost, acquisition)
        try:
            yield Subscribe(acquisition.backend_state.channel, ring)
            yield Subscribe(holders_channel(acquisition.backend_state), _ignore)
        except TarryError:
            self._unsubscribe(acquisition)  # it is tried again when they are looked after next
        if hold.lost_reason or not hold.depth:
            self._unsubscribe(acquisition)

    def _unsubscribe(self, acquisition: Acquisition) -> None:
        ring = self._holder_channels.pop(acquisition, None)
        if ring is not None:
            self._unsubscribe_from(acquisition.backend_state.channel, ring)
            self._unsubscribe_from(holders_channel(acquisition.backend_state), _ignore)
        self._suspects.discard(acquisition)

    def _suspect_lost(self, acquisition: Acquisition) -> None:
        """There was a word: it may be his no longer. Called wherever words are heard."""
        self._suspects.add(acquisition)
        self._table.check_soon()

    def _is_suspect(self, acquisition: Acquisition) -> bool:
        found = acquisition in self._suspects
        self._suspects.discard(acquisition)  # a word from now on is another one
        return found

    def state(self, name: str) -> Steps[LockState]:
        return (yield from lock_scripts.lock_state(name, self.keys_of(name)))

    def force_release(self, name: str) -> Steps[bool]:
        return (yield from ask(lock_scripts.force_release(name, self.keys_of(name), sharded=self._cluster)))


def _check_hold(hold: Hold) -> ScriptCall[bool]:
    """Whether it is his yet; renews what is to be renewed."""
    acquisition = hold.acquisition
    if hold.renewed:
        return lock_scripts.renew_lease(acquisition.backend_state, acquisition.id, WATCHDOG_MS)
    return lock_scripts.is_holder(acquisition.backend_state, acquisition.id)


def _ignore() -> None:
    """Nothing is said where holders are counted."""


def _lease_ms(lease_us: int | None) -> int:
    return WATCHDOG_MS if lease_us is None else -(-lease_us // MILLISECOND)
