"""How many jobs of a topic were added, finished and died in each minute of the last day, and how many attempts failed.

    minutes   ┌ minute I ┬ added d ┬ finished d ┬ failed d ┬ died d ┐   the totals at the first pop of a minute

A minute's numbers are the differences of two entries. Where nobody popped for some minutes, what was added meanwhile counts for
the last of them, and what was finished for the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from struct import Struct
from typing import Any, NamedTuple

from tarry.core.requests import Flow, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.durations import SECOND, as_datetime
from tarry.values.keys import POPPING_PARTS, popping_keys
from tarry.verbs.jobs.partition import PartitionVerbs
from tarry.verbs.jobs.partitions import on_each
from tarry.verbs.jobs.topic import TopicVerbs

THROUGHPUT = Script("topic/throughput", keys=POPPING_PARTS, read_only=True)
MINUTE, MINUTES = 60 * SECOND, 24 * 60
_ENTRY = Struct("<Idddd")


class Minute(NamedTuple):
    """The numbers of one minute. ``failed`` counts attempts, the others jobs."""

    at: datetime
    added: int
    finished: int
    failed: int
    died: int


def throughput(verbs: TopicVerbs[Any]) -> Flow[tuple[Minute, ...]]:
    """The minutes of the last day in which anything happened, the oldest first."""
    return verbs.over_partitions(lambda parts: on_each(parts, _of_partition, _merge))


def _of_partition(part: PartitionVerbs[Any]) -> ScriptCall[tuple[Minute, ...]]:
    return ScriptCall(THROUGHPUT, popping_keys(part.keys), (), _decode)


def _decode(reply: Reply) -> tuple[Minute, ...]:
    now, *totals = reply[:5]
    entries = [_ENTRY.unpack(entry) for entry in reply[5:] if len(entry) == _ENTRY.size]
    if not entries:
        return ()
    this_minute = now // MINUTE
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (minute, *before), (following, *after) in zip(entries, [*entries[1:], (this_minute + 1, *totals)], strict=True):
        changes = [max(int(new - old), 0) for old, new in zip(before, after, strict=True)]
        counts[max(following - 1, minute)][0] += changes[0]
        for at, change in enumerate(changes[1:], 1):
            counts[minute][at] += change
    return _minutes({minute: some for minute, some in counts.items() if minute > this_minute - MINUTES})


def _minutes(counts: dict[int, list[int]]) -> tuple[Minute, ...]:
    return tuple(Minute(as_datetime(minute * MINUTE), *some) for minute, some in sorted(counts.items()) if any(some))


def _merge(parts: Sequence[tuple[Minute, ...]]) -> tuple[Minute, ...]:
    counts: dict[datetime, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for one in (minute for part in parts for minute in part):
        counts[one.at] = [old + new for old, new in zip(counts[one.at], one[1:], strict=True)]
    return tuple(Minute(at, *some) for at, some in sorted(counts.items()))
