"""Locks in Redis, in the format of Redisson's RLock: of those that are shared, Java and Python exclude each other.

A lock without a lease is renewed every ten seconds for thirty, as Redisson's watchdog does, all locks of a client at once. Waiters
subscribe to the lock's channel; a lost message costs at most RECHECK_S, or the rest of a lease.

The holder of a lock subscribes to that channel too, after SUBSCRIBE_AFTER_S: a message means that a client, tarry's or Java's, has
released the lock by force, and the holder checks at once. Short holds need no check.
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
from tarry.verbs.locks.lock_values import LockId, LockState

WATCHDOG_MS, RENEWED_EVERY_S = 30_000, 10.0
RECHECK_S = 10.0
SUBSCRIBE_AFTER_S = 0.25
SOON_S = 0.001
"""A lease of N milliseconds is over only after all of them."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A step: calls ``wake`` with each message on the channel, and once when the subscription is active."""

    channel: bytes
    wake: Wake


class RedisBackend:
    """The backend for Redis."""

    def __init__(
        self,
        table: LockTable,
        unsubscribe: Callable[[bytes, Wake], None],
        namespace: str,
        map_name: Callable[[str], str],
        *,
        cluster: bool,
    ) -> None:
        """``unsubscribe`` ends a ``Subscribe``; ``map_name`` maps names of shared locks as Java's ``NameMapper`` does."""
        self._namespace = namespace
        self._map_name = map_name
        self._table = table
        self._unsubscribe_from = unsubscribe
        self._cluster = cluster
        self._now = table.now
        self._subscriptions: set[Acquisition] = set()
        self._holder_channels: dict[Acquisition, Wake] = {}
        self._suspects: set[Acquisition] = set()

    def keys_of(self, lock: LockId) -> LockKeys:
        return lock_scripts.keys_of(lock, self._namespace, self._map_name, cluster=self._cluster)

    def prepare(self, acquisition: Acquisition) -> None:
        acquisition.backend_state = self.keys_of(acquisition.lock)

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
            hold.auto_renewed = hold.auto_renewed or lease_us is None
        return answer.token == hold.token

    def release(self, hold: Hold, depth_left: int) -> Steps[bool]:
        if not depth_left:
            self._unsubscribe(hold.acquisition)  # the next message is its own release
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
        """Removes a hold that the process may not know of."""
        self._unsubscribe(acquisition)
        answers = yield Batch(
            [lock_scripts.release_lock(acquisition.backend_state, acquisition.id, 0, sharded=self._cluster)]
        )
        if isinstance(answers[0], TarryError):
            raise answers[0]

    def is_held(self, hold: Hold) -> Steps[bool]:
        try:
            seen = yield from ask(lock_scripts.read_lock(hold.name, hold.acquisition.backend_state))
        except BadInput:  # the key is no longer a lock
            return False
        return seen.holder == hold.acquisition.id.decode() and seen.token == hold.token

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """Renews all holds, or checks the suspected ones, in one batch; those that the server does not know are lost."""
        holds = list(holds)
        for hold in holds:
            yield from self._subscribe(hold)
        asked = self._now()
        chosen = [hold for hold in holds if self._is_suspect(hold.acquisition) or (due and hold.auto_renewed)]
        if not chosen:
            return
        answers: list[bool | TarryError] = yield Batch([_check_hold(hold) for hold in chosen])
        for hold, answer in zip(chosen, answers, strict=True):
            if answer is False:
                self._table.lose_hold(hold, "it was taken away")
            elif answer is not True:
                self._suspects.add(hold.acquisition)
            elif hold.auto_renewed:
                hold.until = max(hold.until, asked + WATCHDOG_MS / 1000)

    # ── messages about locks that are held ───────────────────────────────────────────────────────────────────────────

    def _subscribe(self, hold: Hold) -> Steps[None]:
        acquisition = hold.acquisition
        if acquisition in self._holder_channels:
            return
        self._holder_channels[acquisition] = on_message = partial(self._suspect_lost, acquisition)
        try:
            yield Subscribe(acquisition.backend_state.channel, on_message)
            yield Subscribe(holders_channel(acquisition.backend_state), _ignore)
        except TarryError:
            self._unsubscribe(acquisition)  # it is tried again at the next renewal
        if hold.lost_reason or not hold.depth:
            self._unsubscribe(acquisition)

    def _unsubscribe(self, acquisition: Acquisition) -> None:
        on_message = self._holder_channels.pop(acquisition, None)
        if on_message is not None:
            self._unsubscribe_from(acquisition.backend_state.channel, on_message)
            self._unsubscribe_from(holders_channel(acquisition.backend_state), _ignore)
        self._suspects.discard(acquisition)

    def _suspect_lost(self, acquisition: Acquisition) -> None:
        """A message came: the lock may be lost. Called on the thread or loop of the subscription."""
        self._suspects.add(acquisition)
        self._table.check_soon()

    def _is_suspect(self, acquisition: Acquisition) -> bool:
        found = acquisition in self._suspects
        self._suspects.discard(acquisition)  # a later message is another one
        return found

    def state(self, lock: LockId) -> Steps[LockState]:
        return (yield from lock_scripts.lock_state(lock.name, self.keys_of(lock)))

    def force_release(self, lock: LockId) -> Steps[bool]:
        return (yield from ask(lock_scripts.force_release(lock.name, self.keys_of(lock), sharded=self._cluster)))


def _check_hold(hold: Hold) -> ScriptCall[bool]:
    """The request that checks a hold, and renews it if it has no lease of its own."""
    acquisition = hold.acquisition
    if hold.auto_renewed:
        return lock_scripts.renew_lease(acquisition.backend_state, acquisition.id, WATCHDOG_MS)
    return lock_scripts.is_holder(acquisition.backend_state, acquisition.id)


def _ignore() -> None:
    """Ignores a message: there are none on the channel that counts holders."""


def _lease_ms(lease_us: int | None) -> int:
    return WATCHDOG_MS if lease_us is None else -(-lease_us // MILLISECOND)
