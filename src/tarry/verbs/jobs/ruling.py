"""Ruling a topic as a whole: ``pause``, ``resume``, ``configure``, ``purge``."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tarry.idea.calls import Call, Flow, Reply, ask
from tarry.idea.scripts import Script
from tarry.verbs.jobs.options import max_attempts_of, ttr_ms_of
from tarry.verbs.jobs.places import places_of
from tarry.verbs.jobs.shapes import Defaults, State
from tarry.verbs.jobs.stored import NO_LIMIT
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

PAUSE = Script("topic/pause", args=("span",))
CONFIGURE = Script("topic/configure", item=("field", "value"))
PURGE = Script("topic/purge", args=("place", "side", "limit"))
TTR_US, MAX_ATTEMPTS, KEEP_US = 60 * SECOND, 20, 30 * DAY
"""What holds where nobody says anything; lua/topic/pop.lua has the same."""
_STEP = 500
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
) -> Call[Defaults]:
    """Sets what holds for jobs that say nothing else. ``None``: the project's TTR, no limit of attempts, dead for ever."""
    items: list[bytes] = []
    if ttr != AS_IT_IS:
        items += [b"ttr", b"%d" % (ttr_ms_of(ttr) * MILLISECOND) if ttr is not None else b""]
    if max_attempts != AS_IT_IS:
        items += [b"max_attempts", b"%d" % max_attempts_of(max_attempts)]
    if keep != AS_IT_IS:
        items += [b"keep", b"%d" % microseconds(keep, "keep", least=SECOND) if keep is not None else b"0"]
    return Call(CONFIGURE, keys, (), _defaults, items=items, alone=True)


def _defaults(reply: Reply) -> Defaults:
    ttr, limit, keep = (int(word) if word is not None else None for word in reply)
    return Defaults(
        as_timedelta(ttr if ttr is not None else TTR_US),
        MAX_ATTEMPTS if limit is None else None if limit == NO_LIMIT else limit,
        as_timedelta(KEEP_US if keep is None else keep) if keep != 0 else None,
    )


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
