"""The page on all topics: what is wrong with which, the worst first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tarry import Stats
from tarry.programs.dashboard.charts import timeline
from tarry.programs.dashboard.charts.timeline import TimeLine
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages.server_page import health
from tarry.programs.dashboard.row_lists import list_page
from tarry.programs.dashboard.sections import Section
from tarry.programs.serving.conditions import SERVER_KINDS, Condition, assess_topic, overdue, severity, summarize
from tarry.types import Lateness

SHOWN = 50
MOST_NOTABLE = 2
"""A row tells so many conditions of its topic, the worst."""
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
    conditions: tuple[Condition, ...]

    @property
    def notable(self) -> list[Condition]:
        """The conditions that are told beside its name: not those of the server, which all topics share."""
        own = [one for one in self.conditions if one.kind not in (*SERVER_KINDS, "empty", "on_time")]
        return own[:MOST_NOTABLE]


async def view(visit: PageRequest) -> dict[str, Any]:
    client = visit.client
    known, workers, server = await asyncio.gather(client.topics(), client.workers(), health(visit))
    found = await asyncio.gather(*[client.topic(name).stats() for name in known])
    conditions = {stats.topic: assess_topic(stats, workers, server.facts) for stats in found}

    def worst_first(stats: Stats) -> tuple[tuple[float, ...], str]:
        return severity(conditions[stats.topic]), stats.topic

    sorts = {"worst": worst_first, **SORTS}
    page = list_page(visit, found, size=SHOWN, text_of=lambda stats: stats.topic, sorts=sorts)
    shown = page.shown
    lines = await asyncio.gather(*[timeline.whole_timeline(client.topic(stats.topic), parts=2) for stats in shown])
    rows = [_row(visit, stats, line, conditions[stats.topic]) for stats, line in zip(shown, lines, strict=True)]
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
        "verdict": summarize(conditions),
        "health": server,
    }


SORTS: dict[str, Callable[[Stats], Any]] = {
    "name": lambda stats: stats.topic,
    "delayed": lambda stats: (-stats.delayed, stats.topic),
    "ready": lambda stats: (-stats.ready, stats.topic),
    "reserved": lambda stats: (-stats.reserved, stats.topic),
    "dead": lambda stats: (-stats.dead, stats.topic),
    "oldest": lambda stats: (-(overdue(stats) or timedelta()), stats.topic),
}
"""The orders of the topics beside the default, by their worst conditions."""


def _row(visit: PageRequest, stats: Stats, line: TimeLine, conditions: tuple[Condition, ...]) -> TopicRow:
    history = visit.dashboard.sampler.of(stats.topic)
    return TopicRow(
        stats=stats,
        line=line,
        lately=history.lateness(LATELY_S),
        rate_in=history.rate("added", RATES_S),
        rate_out=history.rate("finished", RATES_S),
        overdue=overdue(stats),
        conditions=conditions,
    )


SECTIONS = (Section("/", "overview.html", view, title="Topics"),)
