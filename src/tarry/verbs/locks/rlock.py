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
from tarry.verbs.locks import asking
from tarry.verbs.locks.acquiring import Busy, Steps, Taken
from tarry.verbs.locks.house import Hold, House, Order, Ring
from tarry.verbs.locks.shapes import LockState

WATCHDOG_MS, RENEWED_EVERY_S = 30_000, 10.0
LOOK_AROUND_S = 10.0
HEARD_AFTER_S = 0.25
SOON_S = 0.001
"""A lease of a whole number of milliseconds is over only after them."""


@dataclass(frozen=True, slots=True)
class Listen:
    """From now on ``ring`` is called with each word on the channel, and once when it is listened to."""

    channel: bytes
    ring: Ring


class RedisKeeper:
    """Keeps locks in Redis."""

    def __init__(
        self, house: House, leave: Callable[[bytes, Ring], None], mapped: Callable[[str], str], *, cluster: bool
    ) -> None:
        """``leave`` ends what ``Listen`` began; ``mapped`` names locks as Java's ``NameMapper`` does."""
        self._mapped = mapped
        self._house = house
        self._leave = leave
        self._cluster = cluster
        self._now = house.now
        self._joined: set[Order] = set()
        self._heard: dict[Order, Ring] = {}
        self._suspects: set[Order] = set()

    def keys_of(self, name: str) -> LockKeys:
        return asking.keys_of(name, self._mapped, cluster=self._cluster)

    def order(self, order: Order) -> None:
        order.place = self.keys_of(order.name)

    def take(self, order: Order) -> Steps[Taken | Busy]:
        asked = self._now()
        lease = _lease_ms(order.lease_us)
        answer = yield from ask(asking.take(order.place, order.mark, 1, lease, sharded=self._cluster))
        if answer.token > 0:
            return Taken(answer.token, asked + lease / 1000, look_at=self._now() + HEARD_AFTER_S)
        if order not in self._joined:
            self._joined.add(order)
            yield Listen(order.place.channel, order.ring)
        rest = answer.wait_ms / 1000 + SOON_S if answer.wait_ms >= 0 else LOOK_AROUND_S
        return Busy(self._now() + min(rest, LOOK_AROUND_S))

    def stop_waiting(self, order: Order) -> None:
        if order in self._joined:
            self._joined.discard(order)
            self._leave(order.place.channel, order.ring)

    def deeper(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        asked = self._now()
        lease = _lease_ms(lease_us)
        order = hold.order
        call = asking.take(order.place, order.mark, hold.depth + 1, lease, sharded=self._cluster)
        answer = yield from ask(call)
        if answer.token == hold.token:
            hold.until = max(hold.until, asked + lease / 1000)
            hold.renewed = hold.renewed or lease_us is None
        return answer.token == hold.token

    def give(self, hold: Hold, left: int) -> Steps[bool]:
        if not left:
            self._stop_hearing(hold.order)  # the next word is his own
        return (yield from ask(asking.give(hold.order.place, hold.order.mark, left, sharded=self._cluster)))

    def give_up(self, order: Order) -> Steps[None]:  # noqa: ARG002  # nothing is left on the server
        yield from ()

    def leave(self, order: Order) -> Steps[None]:
        """What is left is at most a hold that nobody knows of."""
        self._stop_hearing(order)
        answers = yield Batch([asking.give(order.place, order.mark, 0, sharded=self._cluster)])
        if isinstance(answers[0], TarryError):
            raise answers[0]

    def holds(self, hold: Hold) -> Steps[bool]:
        try:
            seen = yield from ask(asking.look(hold.name, hold.order.place))
        except BadInput:  # something else has its name now
            return False
        return seen.holder == hold.order.mark.decode() and seen.token == hold.token

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """All of them, or those of which there was a word, at once; what is no longer theirs is lost."""
        holds = list(holds)
        for hold in holds:
            yield from self._hear(hold)
        asked = self._now()
        chosen = [hold for hold in holds if self._is_suspect(hold.order) or (due and hold.renewed)]
        if not chosen:
            return
        answers: list[bool | TarryError] = yield Batch([_still(hold) for hold in chosen])
        for hold, answer in zip(chosen, answers, strict=True):
            if answer is False:
                self._house.lose(hold, "it was taken away")
            elif answer is not True:
                self._suspects.add(hold.order)
            elif hold.renewed:
                hold.until = max(hold.until, asked + WATCHDOG_MS / 1000)

    # ── words about locks that are held ──────────────────────────────────────────────────────────────────────────────

    def _hear(self, hold: Hold) -> Steps[None]:
        order = hold.order
        if order in self._heard:
            return
        self._heard[order] = ring = partial(self._suspect, order)
        try:
            yield Listen(order.place.channel, ring)
            yield Listen(holders_channel(order.place), _nothing)
        except TarryError:
            self._stop_hearing(order)  # it is tried again when they are looked after next
        if hold.lost or not hold.depth:
            self._stop_hearing(order)

    def _stop_hearing(self, order: Order) -> None:
        ring = self._heard.pop(order, None)
        if ring is not None:
            self._leave(order.place.channel, ring)
            self._leave(holders_channel(order.place), _nothing)
        self._suspects.discard(order)

    def _suspect(self, order: Order) -> None:
        """There was a word: it may be his no longer. Called wherever words are heard."""
        self._suspects.add(order)
        self._house.look_soon()

    def _is_suspect(self, order: Order) -> bool:
        found = order in self._suspects
        self._suspects.discard(order)  # a word from now on is another one
        return found

    def state(self, name: str) -> Steps[LockState]:
        return (yield from asking.state(name, self.keys_of(name)))

    def force(self, name: str) -> Steps[bool]:
        return (yield from ask(asking.force(name, self.keys_of(name), sharded=self._cluster)))


def _still(hold: Hold) -> ScriptCall[bool]:
    """Whether it is his yet; renews what is to be renewed."""
    order = hold.order
    if hold.renewed:
        return asking.renew(order.place, order.mark, WATCHDOG_MS)
    return asking.still(order.place, order.mark)


def _nothing() -> None:
    """Nothing is said where holders are counted."""


def _lease_ms(lease_us: int | None) -> int:
    return WATCHDOG_MS if lease_us is None else -(-lease_us // MILLISECOND)
