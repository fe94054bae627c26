"""The time line of due jobs, as a chart.

    whole   │ older, past hour │● next minute │ next hour │ next day │ later       heights logarithmic, one scale for all
    zoomed  │        past      │●   one window, bars of whole seconds, minutes or hours     │    heights linear

The bars are made of ``histogram``, which counts jobs without reading them: a million cost as much as three. A bar is one step
of a path, in units of the plot; the browser scales it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from tarry.programs.dashboard.charts import axes

if TYPE_CHECKING:
    from tarry import Histogram
    from tarry.types import Duration

HEIGHT = 100
BARS = 140
GAP = 0.16
MIN_WINDOW = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A label under the plot, ``at`` a fraction of its width."""

    at: float
    text: str
    moment: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """One window of time. ``late`` and ``due`` are paths; ``now`` is the present's fraction of the width."""

    name: str
    look: str
    start: datetime
    step_s: float
    counts: tuple[int, ...]
    late: str
    due: str
    total: int
    marks: tuple[AxisMark, ...] = ()
    now: float | None = None
    style: str = ""

    @property
    def end(self) -> datetime:
        return self.start + timedelta(seconds=self.step_s * len(self.counts))


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The plots; ``before`` and ``after`` count jobs outside of them. ``top`` is the highest bar."""

    now: datetime
    plots: tuple[Plot, ...]
    before: int
    after: int
    top: int

    @property
    def total(self) -> int:
        return self.before + sum(plot.total for plot in self.plots) + self.after


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window that moves with the time: seconds before now and after it."""

    look: str
    name: str
    past_s: float
    ahead_s: float


WINDOWS = {
    window.look: window
    for window in (
        TimeWindow("past", "the past hour", 3600, 60),
        TimeWindow("minute", "next minute", 6, 60),
        TimeWindow("hour", "next hour", 300, 3600),
        TimeWindow("day", "next day", 3600, 86400),
        TimeWindow("week", "next week", 43200, 7 * 86400),
        TimeWindow("month", "next month", 2 * 86400, 31 * 86400),
        TimeWindow("year", "next year", 14 * 86400, 366 * 86400),
    )
}
WHOLE_PARTS = (
    ("past", "past hour", -3600.0, 3600.0, 24, ((0.0, "1 h ago"), (0.5, "30 m"))),
    ("minute", "next minute", 0.0, 60.0, 30, ((0.5, "30 s"),)),
    ("hour", "next hour", 60.0, 3540.0, 30, ((0.0, "1 m"), (0.492, "30 m"))),
    ("day", "next day", 3600.0, 82800.0, 24, ((0.0, "1 h"), (0.478, "12 h"))),
)
"""Name in the URL, title, start, length, number of bars, labels."""
LATER = ("month", "later")


class HasHistogram(Protocol):
    """A topic, or a shared queue."""

    async def histogram(
        self, *, start: Duration | datetime = ..., span: Duration = ..., buckets: int = ..., past: Duration = ...
    ) -> Histogram: ...


async def whole_timeline(topic: HasHistogram, *, parts: int = 1) -> TimeLine:
    """The whole time line, from late jobs to those due in a year. Bars are ``parts`` times as wide."""
    requests = []
    for _, _, start, seconds, bars, _ in WHOLE_PARTS:
        when = {"start": start} if start >= 0 else {"past": -start}
        requests.append(topic.histogram(**when, span=seconds, buckets=bars // parts))
    found = await asyncio.gather(*requests)
    before, after = found[0].before, found[-1].after
    top = max([before, after, *(count for part in found for count in part.counts)])

    def height(n: int) -> float:
        return _log(n, top)

    plots = []
    for (look, name, _, seconds, _, words), part in zip(WHOLE_PARTS, found, strict=True):
        counts = part.counts if look != "past" else (before, *part.counts)
        path = bars_path(counts, height)
        late = look == "past"
        marks = tuple(AxisMark(at, text) for at, text in words)
        begin = part.start if not late else part.start - part.width
        step_s = seconds / len(part.counts)
        plots.append(
            Plot(
                name=name,
                look=look,
                start=begin,
                step_s=step_s,
                counts=counts,
                late=path if late else "",
                due="" if late else path,
                total=sum(counts),
                marks=marks,
            )
        )
    now, last = found[0].now, found[-1]
    later = bars_path((after,), height)
    end = last.start + last.width * len(last.counts)
    plots.append(
        Plot(
            name=LATER[1],
            look=LATER[0],
            start=end,
            step_s=86400.0 * 30,
            counts=(after,),
            late="",
            due=later,
            total=after,
            marks=(AxisMark(0.0, "1 d"),),
        )
    )
    return TimeLine(now, tuple(plots), 0, 0, top)


async def zoomed_timeline(
    topic: HasHistogram, start: datetime, end: datetime, *, name: str = "", look: str = ""
) -> TimeLine:
    """One window, in whole steps."""
    span_s = max((end - start).total_seconds(), 0.01)
    step_s = axes.step_of(span_s, BARS)
    first = max(axes.floor_to_step(start, step_s), axes.EPOCH)
    bars = max(math.ceil(((end - first).total_seconds()) / step_s), 1)
    part = await topic.histogram(start=first, span=step_s * bars, buckets=bars)
    first_step = axes.floor_to_step(part.now, step_s)
    late = 0
    if first <= first_step < part.now and first_step < first + timedelta(seconds=step_s * bars):
        late = (await topic.histogram(start=first_step, span=part.now - first_step, buckets=1)).counts[0]
    return _linear(part, step_s, late, name, look)


async def window_timeline(topic: HasHistogram, look: str, now: datetime) -> TimeLine:
    """A window that moves with the time."""
    chosen = WINDOWS[look]
    start, end = now - timedelta(seconds=chosen.past_s), now + timedelta(seconds=chosen.ahead_s)
    return await zoomed_timeline(topic, start, end, name=chosen.name, look=look)


def _linear(part: Histogram, step_s: float, late_now: int, name: str, look: str) -> TimeLine:
    """``late_now`` is the number of late jobs in the bar that contains now."""
    counts, top = part.counts, max(part.counts)
    span_s = step_s * len(counts)
    end = part.start + timedelta(seconds=span_s)
    now = (part.now - part.start).total_seconds() / span_s
    past = min(max(math.floor(now * len(counts) + 1e-9), 0), len(counts))

    def height(n: int) -> float:
        return max(n / top, 0.015) if n else 0.0

    late = bars_path((*counts[:past], min(late_now, *counts[past : past + 1])) if late_now else counts[:past], height)
    due = bars_path(counts[past:], height, past)
    marks = tuple(
        AxisMark((at - part.start).total_seconds() / span_s, axes.label_of(at, span_s), at)
        for at in axes.marks(part.start, end, 7)
    )
    here = now if 0 <= now <= 1 else None
    plot = Plot(
        name=name,
        look=look,
        start=part.start,
        step_s=step_s,
        counts=counts,
        late=late,
        due=due,
        total=sum(counts),
        marks=marks,
        now=here,
        style=axes.label_style(span_s),
    )
    return TimeLine(part.now, (plot,), part.before, part.after, top)


def shifted(plot: Plot, by: float) -> dict[str, str]:
    """The query of the URL for the window shifted by a fraction of its length."""
    length = (plot.end - plot.start) * by
    return _stretch(plot.start + length, plot.end + length)


def widened(plot: Plot, by: float) -> dict[str, str]:
    """The query of the URL for a window with the same middle; ``by`` is the fraction on each side."""
    middle, half = plot.start + (plot.end - plot.start) / 2, max((plot.end - plot.start) * by, MIN_WINDOW / 2)
    return _stretch(middle - half, middle + half)


def _stretch(start: datetime, end: datetime) -> dict[str, str]:
    ms = timedelta(milliseconds=1)
    first = max((start - axes.EPOCH) // ms, 100_000_000_000)
    return {"from": str(first), "to": str((end - axes.EPOCH) // ms)}


def table_rows(plot: Plot) -> list[tuple[datetime, int]]:
    """The bars as a table, without empty ones."""
    step = timedelta(seconds=plot.step_s)
    return [(plot.start + i * step, n) for i, n in enumerate(plot.counts) if n]


def _log(n: int, top: int) -> float:
    """A logarithmic height at which a single job is visible."""
    return 0.06 + 0.94 * math.log1p(n) / math.log1p(top) if n else 0.0


def bars_path(counts: Sequence[int], height: Any, first: int = 0) -> str:
    """Bars of one unit's width standing on HEIGHT, as one path."""
    parts = []
    for i, n in enumerate(counts):
        if n:
            tall = max(height(n) * HEIGHT, 1.0)
            parts.append(f"M{first + i + GAP / 2:g} {HEIGHT}v{-tall:.1f}h{1 - GAP:g}v{tall:.1f}z")
    return "".join(parts)
