"""The charts of a topic beside its time line: its rates, the next hour, and the heat map of lateness.

rates       what was added, finished and died, and how many attempts failed: bars beside each other, in columns of equal time
next hour   jobs that become due in each minute, against the workers' recent rate:
            waiting(i) = max(0, waiting(i − 1) + due(i) − rate)    a job that is due then waits for about waiting / rate
heat map    a column is an interval of time, a row a range of lateness, the shade the number of jobs
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tarry import MinuteCounts
from tarry.programs.dashboard.charts.timeline import HEIGHT, bars_path
from tarry.programs.dashboard.filters import count

RATE_SPANS = {"hour": (60, 1), "six hours": (72, 5), "day": (96, 15), "week": (84, 120)}
"""Columns, and minutes of each."""
LINES = ("added", "finished", "failed", "died")
BARS_SHARE, LEAST_HEIGHT = 0.84, 1.5
"""Of a column's width, and of the chart's height in percent."""
MINUTES = 60
HOURLY_BELOW = 10
"""A rate of fewer jobs a minute is told by the hour."""
EDGES_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 21600, 86400)
"""The upper edges of the heat map's rows; one more row lies above the last."""
LEVELS = 6
MIN_ROWS = 6


@dataclass(frozen=True, slots=True)
class Line:
    """One counter: its bars, in columns and percent, and its sum."""

    name: str
    path: str
    total: int


@dataclass(frozen=True, slots=True)
class RateChart:
    """``top`` is the highest rate a minute; a counter that did not move has no bars. ``span`` is a name of RATE_SPANS."""

    lines: tuple[Line, ...]
    top: float
    span: str
    columns: int
    seconds: int

    @property
    def most(self) -> str:
        """The highest rate as a text, by the hour where it is less than ten a minute."""
        if self.top >= HOURLY_BELOW:
            return f"{count(self.top)} per minute"
        hourly = MINUTES * self.top
        return f"{count(hourly) if hourly >= 1 else format(hourly, '.2g')} per hour"


def rates(minutes: Sequence[MinuteCounts], now: datetime, span: str = "") -> RateChart:
    """The last hour, day or week, or without a span as much as is known of a day: the columns end with the present minute, those of a
    week with the present hour."""
    end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    known = (end - min((minute.start for minute in minutes), default=end)) // timedelta(minutes=1)
    if span not in RATE_SPANS:
        span = next((name for name in ("hour", "six hours") if math.prod(RATE_SPANS[name]) >= known), "day")
    columns, width = RATE_SPANS[span]
    if width > MINUTES:
        end = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    counts = {name: [0] * columns for name in LINES}
    for minute in minutes:
        column = columns - 1 - (end - minute.start - timedelta(minutes=1)) // timedelta(minutes=width)
        if 0 <= column < columns:
            for name in LINES:
                counts[name][column] += getattr(minute, name)
    moved = {name: column for name, column in counts.items() if any(column)}
    highest = max((max(column) for column in moved.values()), default=0)
    lines = [
        Line(name, _bars_beside(column, highest, at, len(moved)), sum(column))
        for at, (name, column) in enumerate(moved.items())
    ]
    return RateChart(tuple(lines), highest / width, span, columns, 60 * columns * width)


def _bars_beside(counts: Sequence[int], highest: int, at: int, of: int) -> str:
    """Bars that share each column with those of other counters; one job can be seen beside a thousand."""
    width = BARS_SHARE / of
    return "".join(
        f"M{x + (1 - BARS_SHARE) / 2 + at * width:.3f} {HEIGHT}v{-max(HEIGHT * n / highest, LEAST_HEIGHT):.1f}h{width:.3f}V{HEIGHT}z"
        for x, n in enumerate(counts)
        if n
    )


@dataclass(frozen=True, slots=True)
class HourChart:
    """``managed`` is the workers' rate in jobs a minute; ``None`` if they have finished nothing lately. After ``clear_s`` no job waits that
    was there when most did; ``None`` if that is after the hour."""

    due: str
    waiting: str
    line: float | None
    top: float
    coming: int
    ready: int
    managed: float | None
    worst_s: float
    clear_s: float | None
    left: int


def next_hour(counts: Sequence[int], ready: int, managed: float | None) -> HourChart:
    """The next hour from the jobs due in each minute, the jobs ready now, and the workers' rate in jobs a minute."""
    pace = managed or 0.0
    waiting: list[float] = []
    left = float(ready)
    for due in counts:
        left = max(0.0, left + due - pace)
        waiting.append(left)
    top = max([*counts, pace, *waiting, 1])

    def height(n: float) -> float:
        return min(n / top, 1.0)

    most = max(waiting, default=0.0)
    clear = next((i for i in range(waiting.index(most), len(waiting)) if waiting[i] == 0), None)
    return HourChart(
        due=bars_path(counts, height),
        waiting=_area(waiting, top),
        line=HEIGHT * (1 - pace / top) if managed else None,
        top=top,
        coming=sum(counts),
        ready=ready,
        managed=managed,
        worst_s=60 * most / pace if pace else 0.0,
        clear_s=None if clear is None else 60.0 * (clear + 1),
        left=round(left),
    )


def _area(values: Sequence[float], top: float) -> str:
    if not any(values):
        return ""
    steps = [f"L{i} {HEIGHT * (1 - n / top):.1f}H{i + 1}" for i, n in enumerate(values)]
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}z"


@dataclass(frozen=True, slots=True)
class Heat:
    """``levels`` are paths in units of columns and rows, light to dark; row 0 is at the bottom."""

    columns: int
    rows: int
    levels: tuple[str, ...]
    edges_s: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    total: int


def row_of(bucket: int) -> int:
    """The row of a bucket of ``Lateness``, by its upper end."""
    return bisect_left(EDGES_S, (2 ** ((bucket + 1) / 4) - 2) / 1e6)


def heat(columns: Sequence[Mapping[int, int]]) -> Heat:
    """From counts by bucket, the oldest column first."""
    table = [[0] * (len(EDGES_S) + 1) for _ in columns]
    for cells, column in zip(table, columns, strict=True):
        for bucket, n in column.items():
            cells[row_of(bucket)] += n
    used = [row for row in range(len(EDGES_S) + 1) if any(cells[row] for cells in table)]
    rows = max([MIN_ROWS, *(row + 1 for row in used)])
    top = max((n for cells in table for n in cells), default=0)
    paths = [list[str]() for _ in range(LEVELS)]
    for x, cells in enumerate(table):
        for row, n in enumerate(cells[:rows]):
            if n:
                level = min(int(LEVELS * math.log1p(n) / math.log1p(top)), LEVELS - 1)
                paths[level].append(f"M{x + 0.06:g} {rows - 1 - row + 0.06:g}h.88v.88h-.88z")
    shown = tuple(tuple(cells[:rows]) for cells in table)
    return Heat(len(columns), rows, tuple(map("".join, paths)), EDGES_S[:rows], shown, sum(map(sum, table)))
