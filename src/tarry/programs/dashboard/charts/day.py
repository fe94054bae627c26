"""The last day of a topic: what was added, finished and died a minute, and how many attempts failed, in columns of 15 minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tarry.programs.dashboard.charts.timeline import HEIGHT
from tarry.verbs.jobs.stats import Minute

COLUMNS, WIDTH = 96, timedelta(minutes=15)
LINES = ("added", "finished", "failed", "died")


@dataclass(frozen=True, slots=True)
class Line:
    """One counter: its path, in columns and percent, and its sum."""

    name: str
    path: str
    total: int


@dataclass(frozen=True, slots=True)
class Day:
    """``top`` is the highest rate a minute; a counter that did not move has no line."""

    lines: tuple[Line, ...]
    top: float


def day(minutes: Sequence[Minute], now: datetime) -> Day:
    """The columns of the last 24 h, the oldest first. The last one ends with the present minute."""
    end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    counts = {name: [0] * COLUMNS for name in LINES}
    for minute in minutes:
        column = COLUMNS - 1 - (end - minute.start - timedelta(minutes=1)) // WIDTH
        if 0 <= column < COLUMNS:
            for name in LINES:
                counts[name][column] += getattr(minute, name)
    highest = max(max(columns) for columns in counts.values())
    minutes_each = WIDTH // timedelta(minutes=1)
    lines = [Line(name, _path(columns, highest), sum(columns)) for name, columns in counts.items() if any(columns)]
    return Day(tuple(lines), highest / minutes_each)


def _path(columns: Sequence[int], highest: int) -> str:
    steps = [f"{'L' if x else 'M'}{x} {HEIGHT * (1 - n / highest):.1f}H{x + 1}" for x, n in enumerate(columns)]
    return "".join(steps)
