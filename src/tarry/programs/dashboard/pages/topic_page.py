"""The page of one topic: its time line, the forecast of the next hour, its lateness, the groups of its dead jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import add
from typing import Any

from tarry import AsyncClient, AsyncTopic, MinuteCounts, Schedule, TopicSettings
from tarry.errors import BadInput
from tarry.internal import DueSoon, as_datetime, perform, server_verbs
from tarry.programs.dashboard.busiest_keys import BusiestKeys
from tarry.programs.dashboard.charts import timeline
from tarry.programs.dashboard.charts.timeline import WINDOWS, TimeLine
from tarry.programs.dashboard.charts.topic_charts import MINUTES, heat, next_hour, rates
from tarry.programs.dashboard.dead_scans import DeadScans
from tarry.programs.dashboard.explanations import slots_of
from tarry.programs.dashboard.forecasts import SPAN, forecast_of, jobs_by_minute
from tarry.programs.dashboard.page_request import PageHost, PageRequest, parse_moment, view_known
from tarry.programs.dashboard.pages.overview import LATELY_S, RATES_S
from tarry.programs.dashboard.pages.server_page import health
from tarry.programs.dashboard.sections import Section
from tarry.programs.serving.conditions import assess_topic, is_paused, key_text, overdue
from tarry.programs.serving.forecast import MOST_READ

SPANS = {"hour": (3600.0, 60), "day": (86400.0, 96)}
"""Seconds and columns of the heat map."""
FIRST_SPANS_S = (600.0, 1200.0, 3600.0)
"""While less than the full span has been sampled, the first of these that contains it is shown."""
WEEK_REFRESH_S = 30.0
SOON_REFRESH_S = 5.0
MIN_WINDOW, MAX_WINDOW = timedelta(milliseconds=100), timedelta(days=3660)


class LastWeeks:
    """The minutes of the last day and the hours of the last week of each topic, read again every half minute."""

    def __init__(self, _: PageHost) -> None:
        self._known: dict[str, tuple[float, tuple[MinuteCounts, ...]]] = {}

    async def of(self, topic: AsyncTopic[Any]) -> tuple[MinuteCounts, ...]:
        now = asyncio.get_running_loop().time()
        self._known = {name: one for name, one in self._known.items() if now - one[0] < WEEK_REFRESH_S}
        if topic.name not in self._known:
            self._known[topic.name] = (now, await topic.throughput(span="7d"))
        return self._known[topic.name][1]


@dataclass(frozen=True, slots=True)
class ComingJobs:
    """The jobs of a topic that are due soon, its schedules, and the number of jobs that these add in each minute of the hour, if
    ``are_all``; else more."""

    due: Sequence[DueSoon[Any]]
    schedules: Sequence[Schedule]
    by_minute: Sequence[int]
    are_all: bool


class ComingOfTopics:
    """The coming jobs of each topic, read again every five seconds."""

    def __init__(self, _: PageHost) -> None:
        self._known: dict[str, tuple[float, ComingJobs]] = {}

    async def of(self, client: AsyncClient, topic: AsyncTopic[Any]) -> ComingJobs:
        now = asyncio.get_running_loop().time()
        self._known = {name: one for name, one in self._known.items() if now - one[0] < SOON_REFRESH_S}
        if topic.name not in self._known:
            due = await perform(client, server_verbs(topic).due_soon(SPAN, MOST_READ))
            schedules = await client.schedules.list(topic)
            counted = jobs_by_minute(schedules, as_datetime(due[0].now_us), MINUTES)
            self._known[topic.name] = (now, ComingJobs(due, schedules, *counted))
        return self._known[topic.name][1]


def _pace(best_minute: float | None, settings: TopicSettings) -> float | None:
    """Jobs a minute: what the workers managed, and no more than the topic's rate allows."""
    if best_minute is None or settings.rate is None:
        return best_minute
    return min(best_minute, 60 * settings.rate.count / settings.rate.per.total_seconds())


async def view(visit: PageRequest) -> dict[str, Any]:
    topic = visit.topic()
    views = asyncio.gather(
        topic.stats(),
        topic.configure(),
        visit.client.workers(),
        topic.histogram(start=0, span=3600, buckets=MINUTES),
        visit.dashboard.shared_part(ComingOfTopics).of(visit.client, topic),
        perform(visit.client, server_verbs(topic).partitions()),
    )
    (stats, settings, workers, hour, coming, parts), server, keys = await asyncio.gather(
        view_known(topic, views), health(visit), visit.dashboard.shared_part(BusiestKeys).of(topic)
    )
    dead = await visit.dashboard.shared_part(DeadScans).of(topic, stats.dead)
    history = visit.dashboard.sampler.of(topic.name)
    heat_span = "day" if visit.parameter("heat") == "day" else "hour"
    full_s, columns = SPANS[heat_span]
    sampled_s = stats.now.timestamp() - history.first if history.first else 0.0
    heat_s = min(next((span for span in FIRST_SPANS_S if span >= sampled_s), full_s), full_s)
    best = history.best_minute(3600)
    pace = _pace(best, settings)
    worker_count, slots, busy = slots_of(workers, topic.name)
    return {
        "topic": topic.name,
        "stats": stats,
        "settings": settings,
        "schedules": len(coming.schedules),
        "partitions": len(parts),
        "keys": [(key, key_text(key), is_paused(key)) for key in keys],
        "worker_count": worker_count,
        "slots": slots,
        "busy": busy,
        "unknown": sorted(
            {line for worker in workers for one in worker.topics if one.name == topic.name for line in one.unknown}
        ),
        "workers": [worker for worker in workers if any(one.name == topic.name for one in worker.topics)],
        "line": await _line(visit, stats.now),
        "windows": WINDOWS.values(),
        "hour": next_hour(list(map(add, hour.counts, coming.by_minute)), stats.ready, pace),
        "is_capped": pace != best,
        "more_by_schedules": not coming.are_all,
        "soon": forecast_of(stats, coming.due, coming.schedules, workers),
        "heat": heat(history.columns(heat_s, columns)),
        "heat_s": heat_s,
        "full_s": full_s,
        "heat_span": heat_span,
        "sampled_s": sampled_s,
        "lately": history.lateness(LATELY_S),
        "rates": {name: history.rate(name, RATES_S) for name in ("added", "popped", "finished", "released", "died")},
        "dead": dead,
        "history": rates(await visit.dashboard.shared_part(LastWeeks).of(topic), stats.now, visit.parameter("rates")),
        "overdue": overdue(stats),
        "conditions": assess_topic(stats, workers, server.facts),
    }


async def _line(visit: PageRequest, now: datetime) -> TimeLine:
    """The time line for the query: whole, a window that moves with the time, or a fixed window."""
    topic, look = visit.topic(), visit.parameter("look")
    start, end = parse_moment(visit.parameter("from"), now, "from"), parse_moment(visit.parameter("to"), now, "to")
    if start is not None and end is not None:
        if not MIN_WINDOW <= end - start <= MAX_WINDOW:
            raise BadInput("from, to: give a window of at least 100 ms and at most ten years.")
        return await timeline.zoomed_timeline(topic, start, end)
    if look in WINDOWS:
        return await timeline.window_timeline(topic, look, now)
    return await timeline.whole_timeline(topic)


SECTIONS = (Section("/topic", "topic.html", view, every_s=1.0),)
