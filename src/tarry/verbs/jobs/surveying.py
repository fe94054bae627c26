"""Looking over many jobs at once, for those who mind a topic: how many a filter names, and why the dead are dead."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tarry.errors import BadInput
from tarry.idea.calls import Call, Command, Flow, ask
from tarry.idea.scripts import Script
from tarry.verbs.jobs.shapes import State
from tarry.verbs.jobs.topic import TopicDesk
from tarry.words.durations import as_datetime, moment
from tarry.words.keys import TopicKeys

CAUSES = Script("topic/causes", args=("from", "limit"))
MOST, _STEP = 1000, 100


@dataclass(frozen=True, slots=True)
class Cause:
    """Dead jobs that have a reason and the last line of their error in common; ``id`` is the one that died last."""

    reason: str
    error: str
    count: int
    id: str
    last: datetime
    first: datetime


@dataclass(frozen=True, slots=True)
class Causes:
    """Why jobs are dead: of the ``looked_at`` that died last, the largest groups first."""

    dead: int
    looked_at: int
    groups: tuple[Cause, ...]


def causes(keys: TopicKeys, limit: int = MOST) -> Flow[Causes]:
    """Groups those of the dead that died last, at most a thousand, by reason and error; in bounded steps."""
    if not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST}.")
    dead = looked = 0
    groups: dict[tuple[str, str], Cause] = {}
    while looked < limit:
        step = min(_STEP, limit - looked)
        dead, seen, *rows = yield from ask(Call(CAUSES, keys, (b"%d" % looked, b"%d" % step), list))
        looked += seen
        for row in rows:
            more = _cause(*row)
            known = groups.get((more.reason, more.error))
            groups[more.reason, more.error] = (
                replace(known, count=known.count + more.count, first=more.first) if known else more
            )
        if seen < step:
            break
    return Causes(dead, looked, tuple(sorted(groups.values(), key=lambda cause: -cause.count)))


def _cause(reason: bytes, error: bytes, count: int, id: bytes, last: int, first: int) -> Cause:
    return Cause(_text(reason), _text(error), count, id.decode(), as_datetime(last), as_datetime(first))


def _text(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip()


def due_between(
    desk: TopicDesk[object], now: datetime, state: State | None, after: datetime | None, before: datetime | None
) -> Flow[int]:
    """How many jobs ``list`` would name at ``now`` for a window of due times: it counts, and reads none."""
    low = b"%d" % moment(after, "due_after") if after is not None else b"-inf"
    high = b"(%d" % moment(before, "due_before") if before is not None else b"+inf"
    present = b"%d" % moment(now, "now")
    if state == "delayed" and (after is None or after <= now):
        low = b"(" + present
    if state == "ready" and (before is None or before > now):
        high = present
    return (yield from ask(Command((b"ZCOUNT", desk.keys.due, low, high), int)))
