"""Merging the answers of several partitions into that of one topic."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from tarry.core.flows import gather
from tarry.core.requests import Flow
from tarry.errors import JobExists, StaleReceipt, TopicFull, Unavailable, Unconfirmed
from tarry.verbs.jobs.job_values import Added
from tarry.verbs.jobs.stats import CheckReport, Histogram, Lateness, LimitStatus, MinuteCounts, Stats


def collect_refusal(flow: Flow[None]) -> Flow[StaleReceipt | None]:
    """Performs a flow, and returns its refusal instead of raising it, so that the other partitions are settled too."""
    try:
        yield from flow
    except StaleReceipt as fault:
        return fault
    return None


def merge_added(number: int, parts: Sequence[tuple[list[int], list[Added], Flow[list[Added]]]]) -> Flow[list[Added]]:
    """Performs the adds of all partitions, and returns the answers in the order of the jobs. ``done`` of an error counts what
    all of them added."""
    try:
        yield from gather([flow for *_, flow in parts])
    except (Unavailable, Unconfirmed, JobExists, TopicFull) as fault:
        fault.done = sum(len(done) for _, done, _ in parts)
        raise
    answers: list[Any] = [None] * number
    for places, done, _ in parts:
        for at, answer in zip(places, done, strict=True):
            answers[at] = answer
    return answers


def merge_stats(parts: list[Stats]) -> Stats:
    """Adds up counters, and takes the earliest moments. A waiting consumer has a seat in each partition, so ``watching`` is the
    maximum."""
    first = parts[0]
    sums = {
        field.name: sum(getattr(part, field.name) for part in parts)
        for field in fields(Stats)
        if isinstance(getattr(first, field.name), int)
        and field.name not in ("pending_bytes", "full", "max_pending", "max_pending_bytes")
    }
    weighed = [part.pending_bytes for part in parts if part.pending_bytes is not None]
    late: Counter[int] = Counter()
    for part in parts:
        late.update(part.lateness.buckets)
    return replace(
        first,
        **{**sums, "watching": max(part.watching for part in parts)},
        next_due=_earliest(part.next_due for part in parts),
        oldest_ready=_earliest(part.oldest_ready for part in parts),
        can_go_since=_earliest(part.can_go_since for part in parts),
        last_died=_latest(part.last_died for part in parts),
        last_popped=_latest(part.last_popped for part in parts),
        lateness=Lateness.of(late),
        limited=_merge_limits(parts),
        full=any(part.full for part in parts),
        pending_bytes=sum(weighed) if len(weighed) == len(parts) else None,
    )


def _merge_limits(parts: list[Stats]) -> LimitStatus | None:
    """The limit of the whole topic: none while one partition may hand out its ready jobs; else the one that ends first."""
    held = [part.limited for part in parts if part.ready]
    if None in held:
        return None
    return min((one for one in held if one is not None), key=lambda one: (one.until is None, one.until), default=None)


def _earliest(moments: Any) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _latest(moments: Any) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def merge_histograms(parts: list[Histogram]) -> Histogram:
    """Adds up histograms of the same buckets."""
    counts = tuple(map(sum, zip(*[part.counts for part in parts], strict=True)))
    before, after = sum(part.before for part in parts), sum(part.after for part in parts)
    return replace(parts[0], before=before, counts=counts, after=after)


def merge_minutes(parts: list[tuple[MinuteCounts, ...]]) -> tuple[MinuteCounts, ...]:
    """Adds up what happened in the same minute."""
    found: dict[datetime, list[MinuteCounts]] = defaultdict(list)
    for minute in (minute for part in parts for minute in part):
        found[minute.start].append(minute)
    return tuple(
        MinuteCounts(
            start,
            sum(one.added for one in same),
            sum(one.finished for one in same),
            sum(one.failed for one in same),
            sum(one.died for one in same),
        )
        for start, same in sorted(found.items())
    )


def merge_checks(parts: list[CheckReport]) -> CheckReport:
    return CheckReport(
        sum(part.looked_at for part in parts),
        tuple(fault for part in parts for fault in part.faults),
        sum(part.leaving for part in parts),
        sum(part.schedules_leaving for part in parts),
    )
