"""How many jobs of a topic were added, finished and died in each minute of the last day, and in each hour of the last
week, and how many attempts failed.

    minutes   ┌ minute I ┬ added d ┬ finished d ┬ failed d ┬ died d ┐   the totals at the first pop of a minute; of an hour, if older than a day

A minute's numbers are the differences of two entries. Where nobody popped for some minutes, what was added meanwhile counts for
the last of them, and what was finished for the first.
"""

from __future__ import annotations

from collections import defaultdict
from struct import Struct

from tarry.core.requests import Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND, Duration, as_datetime, duration_us
from tarry.values.keys import POPPING_PARTS, TopicKeys
from tarry.verbs.jobs.stats import MinuteCounts

THROUGHPUT = Script("topic/throughput", keys=POPPING_PARTS, read_only=True)
MINUTE, HOUR = 60 * SECOND, 60
DAY, WEEK = 24 * HOUR, 7 * 24 * HOUR
"""Minutes."""
_ENTRY = Struct("<Idddd")


def throughput(keys: TopicKeys, span: Duration) -> ScriptCall[tuple[MinuteCounts, ...]]:
    """The minutes of ``span`` before now in which anything happened, the oldest first; the present one is the last. Older ones come
    by the hour: those of more than a day ago."""
    wanted = minutes_of(span)
    return ScriptCall(THROUGHPUT, THROUGHPUT.keys_for(keys), (), lambda reply: _decode(reply, wanted))


def minutes_of(span: Duration) -> int:
    """The number of minutes of a span, the present one included. Raises ``BadInput``."""
    minutes = -(-duration_us(span, "span", minimum=1) // MINUTE)
    if minutes > WEEK:
        raise BadInput(f"span: {span!r}; the last week is kept, so it is 7d at most.")
    return minutes


def _decode(reply: Reply, wanted: int) -> tuple[MinuteCounts, ...]:
    now, *totals = reply[:5]
    entries = [_ENTRY.unpack(entry) for entry in reply[5:] if len(entry) == _ENTRY.size]
    if not entries:
        return ()
    this_minute = now // MINUTE

    def start_of(minute: int) -> int:
        return minute if minute > this_minute - DAY else minute // HOUR * HOUR

    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (minute, *before), (following, *after) in zip(entries, [*entries[1:], (this_minute + 1, *totals)], strict=True):
        changes = [max(int(new - old), 0) for old, new in zip(before, after, strict=True)]
        counts[start_of(max(following - 1, minute))][0] += changes[0]
        for at, change in enumerate(changes[1:], 1):
            counts[start_of(minute)][at] += change
    return tuple(
        MinuteCounts(as_datetime(minute * MINUTE), *some)
        for minute, some in sorted(counts.items())
        if minute > this_minute - wanted and any(some)
    )
