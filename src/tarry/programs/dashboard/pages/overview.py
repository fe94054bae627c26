"""The page on all topics: which are late, and by how much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.charts import timeline
from tarry.programs.dashboard.charts.timeline import TimeLine
from tarry.programs.dashboard.explanations import slots_of
from tarry.programs.dashboard.listing import list_page
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages.server_page import health
from tarry.programs.dashboard.sections import Section
from tarry.verbs.jobs.stats import Lateness, Stats
from tarry.verbs.workers import WorkerInfo

SHOWN = 50
LATE_AFTER = timedelta(seconds=5)
"""A topic is late when a job has been ready for longer."""
LATELY_S, RATES_S = 600.0, 60.0


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A row of the table of topics."""

    stats: Stats
    line: TimeLine
    lately: Lateness
    rate_in: float | None
    rate_out: float | None
    overdue: timedelta | None
    late: bool
    has_consumer: bool
    """Whether a worker serves it, a client waits for its jobs, or one has popped in the last minute."""


def overdue(stats: Stats) -> timedelta | None:
    """How long the oldest ready job has waited."""
    return stats.now - stats.oldest_ready if stats.oldest_ready is not None else None


def is_late(stats: Stats) -> bool:
    """Whether a job waits that should have been popped; a job that a pause or a limit holds back is not late."""
    waits = overdue(stats)
    return waits is not None and waits > LATE_AFTER and stats.limited is None


async def view(visit: PageRequest) -> dict[str, Any]:
    client = visit.client
    known, workers, server = await asyncio.gather(client.topics(), client.workers(), health(visit))
    found = await asyncio.gather(*[client.topic(name).stats() for name in known])
    page = list_page(visit, found, size=SHOWN, text_of=lambda stats: stats.topic, sorts=SORTS)
    shown = page.shown
    lines = await asyncio.gather(*[timeline.whole_timeline(client.topic(stats.topic), parts=2) for stats in shown])
    rows = [_row(visit, stats, line, workers) for stats, line in zip(shown, lines, strict=True)]
    return {
        "rows": rows,
        "page": page,
        "topics": len(found),
        "workers": workers,
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
        "totals": {
            state: sum(getattr(stats, state) for stats in found) for state in ("delayed", "ready", "reserved", "dead")
        },
        "next_due": min((stats.next_due - stats.now for stats in found if stats.next_due is not None), default=None),
        "verdict": verdict(found, any(has_consumer(visit, stats, workers) for stats in found)),
        "health": server,
    }


def _sort_key(stats: Stats) -> tuple[Any, ...]:
    """Late topics first, by lateness; then paused ones; then by name."""
    late = is_late(stats)
    return (
        not late,
        -(overdue(stats) or timedelta()).total_seconds() if late else 0,
        stats.paused_until is None,
        stats.topic,
    )


SORTS: dict[str, Callable[[Stats], Any]] = {
    "worst": _sort_key,
    "name": lambda stats: stats.topic,
    "delayed": lambda stats: (-stats.delayed, stats.topic),
    "ready": lambda stats: (-stats.ready, stats.topic),
    "reserved": lambda stats: (-stats.reserved, stats.topic),
    "dead": lambda stats: (-stats.dead, stats.topic),
    "oldest": lambda stats: (-(overdue(stats) or timedelta()), stats.topic),
}
"""The orders of the topics, the default first."""


def _row(visit: PageRequest, stats: Stats, line: TimeLine, workers: Sequence[WorkerInfo]) -> TopicRow:
    history = visit.dashboard.sampler.of(stats.topic)
    lately = history.lateness(LATELY_S)
    rate_in, rate_out = history.rate("added", RATES_S), history.rate("finished", RATES_S)
    waits = bool(stats.delayed or stats.ready or stats.reserved)
    consumed = not waits or has_consumer(visit, stats, workers)
    return TopicRow(
        stats=stats,
        line=line,
        lately=lately,
        rate_in=rate_in,
        rate_out=rate_out,
        overdue=overdue(stats),
        late=is_late(stats),
        has_consumer=consumed,
    )


def has_consumer(visit: PageRequest, stats: Stats, workers: Sequence[WorkerInfo]) -> bool:
    """Whether a worker serves it, a client waits for its jobs, or one has popped in the last minute."""
    popped = visit.dashboard.sampler.of(stats.topic).rate("popped", RATES_S)
    return bool(slots_of(workers, stats.topic)[0] or stats.watching or popped)


def verdict(found: Sequence[Stats], has_consumer: bool) -> tuple[str, str]:
    """The state of all topics: ``good``, ``bad`` or ``calm``, and a sentence."""
    late = sorted((stats for stats in found if is_late(stats)), key=_sort_key)
    if late:
        worst = late[0]
        by = filters.span(overdue(worst))
        if len(late) == 1:
            return "bad", f"{filters.plain(worst.topic)} is {by} late."
        return "bad", f"{len(late)} topics are late, {filters.plain(worst.topic)} by {by}."
    if not found:
        return "calm", "Nothing has been added yet."
    waiting = any(stats.delayed for stats in found)
    if waiting and not has_consumer:
        return "calm", "All is on time, but there are no consumers."
    return "good", "All is on time."


SECTIONS = (Section("/", "overview.html", view, title="Topics"),)
