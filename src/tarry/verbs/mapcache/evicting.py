"""Expired entries out of a map: in bounded steps, an event for each. And Redisson's rule for when to look.

deadline    looks when the next entry expires, and every 5 s, for Java's writes wake nobody       (lua/mapcache/evict.lua)
adaptive    looks every 5 s to 30 min, as much as it found before                                 (lua/mapcache/sweep.lua)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND, Duration, duration_us
from tarry.values.keys import MAP_PARTS
from tarry.verbs.mapcache.desk import MapDesk

EVICT = Script("mapcache/evict", args=("sharded", "most", "me", "stays"), keys=MAP_PARTS)
TRIM = Script("mapcache/trim", args=("sharded", "cursor", "limit"), keys=MAP_PARTS)
SWEEP = Script("mapcache/sweep", args=("sharded", "amount", "held"), keys=(*MAP_PARTS, "latch"))

MOST = b"200"
"""Of each kind, in one script: a millisecond or two."""
SEEDED = b"1000"
NOBODY = b""
EVICTOR, DEPUTY = 1, 2
START, DONE = b"0", b"done"
LONGEST_LATCH_S = 30


class Evicted(NamedTuple):
    """The answer of one step."""

    now: int
    wait: int
    """Microseconds until the next look."""
    seat: int
    """``EVICTOR``, ``DEPUTY`` or 0: whether others now rely on the caller."""
    evicted: int
    more: int
    uneven: int
    """Whether the map is larger than it may be, or has entries of whose use nothing is known."""


def evict_step(desk: MapDesk[Any, Any], *, me: bytes = NOBODY, stays: bool = False) -> ScriptCall[Evicted]:
    args = (desk.sharded, MOST, me, b"1" if stays else b"0")
    return ScriptCall(EVICT, desk.keys, args, lambda reply: Evicted(*reply))


def evict(desk: MapDesk[Any, Any], *, me: bytes = NOBODY, stays: bool = False) -> Flow[tuple[int, Evicted]]:
    """Everything that has expired now. Answers how many, and the last step."""
    step = yield from ask(evict_step(desk, me=me, stays=stays))
    return (yield from evict_rest(desk, step, me=me, stays=stays))


def evict_rest(
    desk: MapDesk[Any, Any], step: Evicted, *, me: bytes = NOBODY, stays: bool = False
) -> Flow[tuple[int, Evicted]]:
    """What one step has left."""
    count = step.evicted
    if step.uneven and not step.more:
        yield from trim(desk)
    while step.more:
        step = yield from ask(evict_step(desk, me=me, stays=stays))
        count += step.evicted
    return count, step


def trim(desk: MapDesk[Any, Any]) -> Flow[None]:
    """Makes a map keep to its maximum size, entries that nobody has counted included."""
    cursor, over = START, 1
    while cursor != DONE or over:
        before = over
        request = ScriptCall(TRIM, desk.keys, (desk.sharded, cursor, SEEDED), _trimmed)
        cursor, over = yield from ask(request)
        if cursor == START or (cursor == DONE and before == over):
            return  # no maximum any more; or nothing moves: others are at it


def _trimmed(reply: Reply) -> tuple[bytes, int]:
    return reply[0], reply[1]


# ── Redisson's rule ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AdaptivePolicy:
    """Redisson's rule for looking: ``minimum`` to ``maximum`` apart, ``amount`` entries of each kind at a time.

    Three looks that found ever less, or nothing: half as long again until the next. Three full ones: a quarter of it.
    ``remove_empty`` stops looking at a map that is empty, until it is used again. Raises ``BadInput``.
    """

    minimum: Duration = 5
    maximum: Duration = 1800
    amount: int = 100
    remove_empty: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.minimum_s <= self.maximum_s:
            raise BadInput("minimum: whole seconds, at least one, and not more than the maximum.")
        if isinstance(self.amount, bool) or not isinstance(self.amount, int) or not 1 <= self.amount <= 1000:
            raise BadInput(f"amount: {self.amount!r}; it is a number from 1 to 1000.")

    @property
    def minimum_s(self) -> int:
        return duration_us(self.minimum, "minimum") // SECOND

    @property
    def maximum_s(self) -> int:
        return duration_us(self.maximum, "maximum") // SECOND

    def begin(self) -> Pace:
        """Before the first look."""
        return Pace(self.minimum_s, ())


class Pace(NamedTuple):
    """How long until the next look, and what the last two have found."""

    delay_s: int
    found: tuple[int, ...]


LATCH_LOST = -1


def next_pace(rule: AdaptivePolicy, pace: Pace, found: int | None) -> Pace:
    """The pace after a look that found so many; ``LATCH_LOST`` and ``None``, an error, teach nothing."""
    if found is None or found == LATCH_LOST:
        return pace
    delay = pace.delay_s
    if len(pace.found) == 2:
        older, last = pace.found
        slower = min(rule.maximum_s, int(delay * 1.5))
        if older > last > found:
            delay = slower
        if older == last == found:
            if found >= rule.amount:
                delay = max(rule.minimum_s, delay // 4)
            if found == 0:
                delay = slower
    return Pace(delay, (*pace.found, found)[-2:])


class Swept(NamedTuple):
    """How many a look of Redisson's rule has found, or ``LATCH_LOST``; and the size of the map."""

    found: int
    size: int


def sweep(desk: MapDesk[Any, Any], rule: AdaptivePolicy, pace: Pace) -> ScriptCall[Swept]:
    held = max(min(pace.delay_s, LONGEST_LATCH_S), 1)
    args = (desk.sharded, b"%d" % rule.amount, b"%d" % held)
    return ScriptCall(SWEEP, (*desk.keys, desk.latch), args, lambda reply: Swept(*reply))
