"""Removing expired entries from a map, in bounded steps, with an event for each; Redisson's rule for when to look; a client's duty.

deadline    looks when the next entry expires, and every 5 s, for Java's writes send no hint       (lua/redisson/mapcache/evict.lua)
adaptive    looks every 5 s to 30 min, depending on how much it found before                       (lua/redisson/mapcache/sweep.lua)

Each map has one evictor and its deputy; other clients that have it open look now and then. The script knows which clients will
look in time (lua/redisson/lib/seats.lua): the evictor, when the next entry expires and every 5 s; its deputy, when the evictor is a second
late. All others look every 5 s. With the policy ``adaptive`` Redisson's latch decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND, Duration, duration_us
from tarry.values.keys import MAP_PARTS
from tarry.verbs.redisson.duties import Duty, SeatedDuty
from tarry.verbs.redisson.mapcache.map_context import MapContext

EVICT = Script("redisson/mapcache/evict", args=("sharded", "most", "waiter", "keeps_running"), keys=MAP_PARTS)
TRIM = Script("redisson/mapcache/trim", args=("sharded", "cursor", "limit"), keys=MAP_PARTS)
SWEEP = Script("redisson/mapcache/sweep", args=("sharded", "amount", "held"), keys=(*MAP_PARTS, "latch"))

MOST = b"200"
"""Entries of each kind in one script, which takes a millisecond or two."""
SAMPLED = b"1000"
NOBODY = b""
EVICTOR, DEPUTY = 1, 2
START, DONE = b"0", b"done"
LONGEST_LATCH_S = 30


class EvictReply(NamedTuple):
    """The answer of one step."""

    now: int
    wait: int
    """Microseconds until the next look."""
    seat: int
    """``EVICTOR``, ``DEPUTY`` or 0: the seat of the caller."""
    evicted: int
    more: int
    inexact: int
    """Whether the map is over its maximum size, or has entries without a known last use."""


def evict_step(
    context: MapContext[Any, Any], *, evictor_id: bytes = NOBODY, keeps_seat: bool = False
) -> ScriptCall[EvictReply]:
    args = (context.sharded, MOST, evictor_id, b"1" if keeps_seat else b"0")
    return ScriptCall(EVICT, context.keys, args, lambda reply: EvictReply(*reply))


def evict(
    context: MapContext[Any, Any], *, evictor_id: bytes = NOBODY, keeps_seat: bool = False
) -> Flow[tuple[int, EvictReply]]:
    """Removes all entries that have expired. Returns how many, and the last step."""
    step = yield from ask(evict_step(context, evictor_id=evictor_id, keeps_seat=keeps_seat))
    count = step.evicted
    if step.inexact and not step.more:
        yield from trim(context)
    while step.more:
        step = yield from ask(evict_step(context, evictor_id=evictor_id, keeps_seat=keeps_seat))
        count += step.evicted
    return count, step


def trim(context: MapContext[Any, Any]) -> Flow[None]:
    """Makes a map obey its maximum size, including entries without a known last use."""
    cursor, over = START, 1
    while cursor != DONE or over:
        before = over
        request = ScriptCall(TRIM, context.keys, (context.sharded, cursor, SAMPLED), _trimmed)
        cursor, over = yield from ask(request)
        if cursor == START or (cursor == DONE and before == over):
            return  # there is no maximum any more; or nothing changes, for another client is trimming


def _trimmed(reply: Reply) -> tuple[bytes, int]:
    return reply[0], reply[1]


# ── Redisson's rule ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AdaptivePolicy:
    """Redisson's rule for removing expired entries: a client looks for them again and again, ``minimum`` to ``maximum`` apart.

    If three looks in a row found nothing, or each found fewer entries than the one before, the time between two looks grows by half.
    If three looks in a row found the same number of entries, ``amount`` or more, the time shrinks to a quarter. Raises ``BadInput``
    for a value that is out of range.
    """

    minimum: Duration = 5
    """The shortest time between two looks, in whole seconds."""
    maximum: Duration = 1800
    """The longest time between two looks."""
    amount: int = 100
    """One look removes at most this many entries whose time to live is over, and at most this many whose idle time is over: 1 to 1000."""
    remove_empty: bool = False
    """Whether the looks stop once the map is empty. They begin again when the map is used."""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_s <= self.maximum_s:
            raise BadInput("minimum: whole seconds, at least one, and not more than the maximum.")
        if isinstance(self.amount, bool) or not isinstance(self.amount, int) or not 1 <= self.amount <= 1000:
            raise BadInput(f"amount: {self.amount!r}; it is a number from 1 to 1000.")

    @property
    def minimum_s(self) -> int:
        """``minimum`` in seconds."""
        return duration_us(self.minimum, "minimum") // SECOND

    @property
    def maximum_s(self) -> int:
        """``maximum`` in seconds."""
        return duration_us(self.maximum, "maximum") // SECOND


class EvictionPace(NamedTuple):
    """The delay until the next look, and what the last two have found."""

    delay_s: int
    found: tuple[int, ...]


LATCH_LOST = -1


def first_pace(policy: AdaptivePolicy) -> EvictionPace:
    """The pace before the first look."""
    return EvictionPace(policy.minimum_s, ())


def next_pace(policy: AdaptivePolicy, pace: EvictionPace, found: int | None) -> EvictionPace:
    """The interval after an eviction of ``found`` entries; ``LATCH_LOST``, and ``None`` for an error, do not change it."""
    if found is None or found == LATCH_LOST:
        return pace
    delay = pace.delay_s
    if len(pace.found) == 2:
        older, last = pace.found
        slower = min(policy.maximum_s, int(delay * 1.5))
        if older > last > found:
            delay = slower
        if older == last == found:
            if found >= policy.amount:
                delay = max(policy.minimum_s, delay // 4)
            if found == 0:
                delay = slower
    return EvictionPace(delay, (*pace.found, found)[-2:])


class SweepReply(NamedTuple):
    """How many a look of Redisson's rule has found, or ``LATCH_LOST``; and the size of the map."""

    found: int
    size: int


def sweep(context: MapContext[Any, Any], policy: AdaptivePolicy, pace: EvictionPace) -> ScriptCall[SweepReply]:
    held = max(min(pace.delay_s, LONGEST_LATCH_S), 1)
    args = (context.sharded, b"%d" % policy.amount, b"%d" % held)
    return ScriptCall(SWEEP, (*context.keys, context.evictor_latch), args, lambda reply: SweepReply(*reply))


# ── the duty of a client ──────────────────────────────────────────────────────────────────────────────────────────────


class EvictedMap(SeatedDuty):
    """One map that this client evicts from."""

    IDLE_WAIT_S, SHARE_PIPELINE_S = 4.9, 2.5

    def __init__(self, context: MapContext[Any, Any], evictor_id: bytes) -> None:
        super().__init__(context.keys.hints, f"The map {context.name}", "cleared of expired entries", evictor_id)
        self.context = context

    def check(self) -> Flow[tuple[int, EvictReply]]:
        return evict(self.context, evictor_id=self.client_id, keeps_seat=True)

    def checked(self, result: tuple[int, EvictReply], sent: float, now: float) -> None:
        last = result[1]
        self._seated(last.seat, last.now, last.wait, sent, now, more=bool(last.more))

    def channels(self) -> tuple[bytes, ...]:
        return (self.key,)

    def on_message(self, channel: bytes, message: bytes) -> None:  # noqa: ARG002  # there is one channel
        """An entry expires before the alarm: only the evictor needs to know."""
        if self.seat == EVICTOR and message.startswith(b"due") and message[3:].isdigit():
            self._due_at(message[3:])

    def leave_request(self) -> ScriptCall[EvictReply] | None:
        return evict_step(self.context, evictor_id=self.client_id) if self.seat else None


class SweptMap(Duty):
    """One map that this client evicts from by Redisson's rule. The first look comes after the shortest delay."""

    def __init__(self, context: MapContext[Any, Any], policy: AdaptivePolicy, now: float) -> None:
        super().__init__(context.keys.hints, f"The map {context.name}", "cleared of expired entries")
        self._context = context
        self._policy = policy
        self._pace = first_pace(policy)
        self.alarm = now + self._pace.delay_s

    def check(self) -> Flow[SweepReply]:
        return ask(sweep(self._context, self._policy, self._pace))

    def checked(self, result: SweepReply, sent: float, now: float) -> None:  # noqa: ARG002  # no seat to be in time for
        self._pace = next_pace(self._policy, self._pace, result.found)
        self.alarm = now + self._pace.delay_s
        self.ended = self._policy.remove_empty and result.size == 0

    def failed(self, now: float) -> None:
        self.alarm = now + self._pace.delay_s
