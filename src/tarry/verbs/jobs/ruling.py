"""Ruling a topic as a whole: ``pause``, ``resume``, ``configure``, ``purge``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from tarry.errors import BadInput
from tarry.idea.calls import Call, Flow, Reply, ask
from tarry.idea.scripts import Script
from tarry.verbs.jobs.options import latest_of, max_attempts_of, ttr_ms_of
from tarry.verbs.jobs.pictures import Defaults
from tarry.verbs.jobs.places import places_of
from tarry.verbs.jobs.shapes import State
from tarry.verbs.jobs.stored import NO_LIMIT
from tarry.words import rates
from tarry.words.durations import (
    DAY,
    LAST_MOMENT_US,
    MILLISECOND,
    SECOND,
    Duration,
    as_datetime,
    as_timedelta,
    microseconds,
)
from tarry.words.keys import TopicKeys
from tarry.words.rates import RateLike

PAUSE = Script("topic/pause", args=("span",))
CONFIGURE = Script("topic/configure", item=("field", "value"))
PURGE = Script("topic/purge", args=("place", "side", "limit"))
TTR_US, MAX_ATTEMPTS, KEEP_US = 60 * SECOND, 20, 30 * DAY
"""What holds where nobody says anything; lua/topic/pop.lua has the same."""
_STEP = 500
_BURST_US = 100 * MILLISECOND
AS_IT_IS: Final = -1
"""An option of ``configure`` that is not touched."""


def pause(keys: TopicKeys, span: Duration | None) -> Call[datetime | None]:
    """Hands out nothing for a time, or until ``resume``."""
    us = LAST_MOMENT_US if span is None else microseconds(span, "for_", least=1)
    return Call(PAUSE, keys, (b"%d" % us,), lambda end: as_datetime(end) if end < LAST_MOMENT_US - SECOND else None)


def resume(keys: TopicKeys) -> Call[None]:
    return Call(PAUSE, keys, (b"",), lambda _: None)


def configure(
    keys: TopicKeys,
    ttr: Duration | None = AS_IT_IS,
    max_attempts: int | None = AS_IT_IS,
    keep: Duration | None = AS_IT_IS,
    rate: RateLike | None = AS_IT_IS,
    burst: int | None = AS_IT_IS,
    concurrency: int | None = AS_IT_IS,
    max_lateness: Duration | None = AS_IT_IS,
) -> Call[Defaults]:
    """Sets what holds for jobs that say nothing else, and for all together. ``None`` takes a limit away; for the others
    it is the project's TTR, no limit of attempts, dead for ever."""
    items: list[bytes] = []
    if ttr != AS_IT_IS:
        items += [b"ttr", b"%d" % (ttr_ms_of(ttr) * MILLISECOND) if ttr is not None else b""]
    if max_attempts != AS_IT_IS:
        items += [b"max_attempts", b"%d" % max_attempts_of(max_attempts)]
    if keep != AS_IT_IS:
        items += [b"keep", b"%d" % microseconds(keep, "keep", least=SECOND) if keep is not None else b"0"]
    if rate != AS_IT_IS:
        items += [b"rate", b"%d %d" % rates.rate(rate) if rate is not None else b""]
    if burst != AS_IT_IS:
        items += [b"burst", _count(burst, "burst")]
    if concurrency != AS_IT_IS:
        items += [b"concurrency", _count(concurrency, "concurrency")]
    if max_lateness != AS_IT_IS:
        latest = latest_of(max_lateness)
        items += [b"max_lateness", b"%d" % latest if latest is not None else b""]
    return Call(CONFIGURE, keys, (), _defaults, items=items, alone=True)


def _count(value: int | None, what: str) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= rates.MOST:
        raise BadInput(f"{what}: {value!r}; it is a whole number from 1 to {rates.MOST:,}, or None for no such limit.")
    return b"%d" % value


def _defaults(reply: Reply) -> Defaults:
    ttr, limit, keep = (int(word) if word is not None else None for word in reply[:3])
    rate = None if reply[3] is None else rates.as_rate(*map(int, reply[3].split()))
    burst, concurrency, latest = (int(word) if word is not None else None for word in reply[4:])
    return Defaults(
        as_timedelta(ttr if ttr is not None else TTR_US),
        MAX_ATTEMPTS if limit is None else None if limit == NO_LIMIT else limit,
        as_timedelta(KEEP_US if keep is None else keep) if keep != 0 else None,
        rate,
        None if rate is None else burst if burst is not None else usual_burst(rate),
        concurrency,
        None if latest is None else as_timedelta(latest),
    )


def usual_burst(rate: rates.Rate) -> int:
    """What comes in a tenth of a second, one at least; lua/lib/limits.lua has the same."""
    return max(1, rate.count * _BURST_US // (rate.per // timedelta(microseconds=1)))


def purge(keys: TopicKeys, state: State | None = None) -> Flow[int]:
    """Deletes all jobs of a state, in bounded steps; without a state the whole topic, at once. Answers how many."""
    if state is None:
        return (yield from ask(Call(PURGE, keys, (b"all", b"", b"0"), int)))
    gone = 0
    for place in places_of(state):
        while True:
            step = yield from ask(Call(PURGE, keys, (*place, b"%d" % _STEP), int))
            gone += step
            if step < _STEP:
                break
    return gone
