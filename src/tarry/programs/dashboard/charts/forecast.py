"""A forecast of the next hour: jobs that become due in each minute, against the workers' recent rate.

waiting(i) = max(0, waiting(i − 1) + due(i) − rate)            a job that is due then waits for about waiting / rate
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarry.programs.dashboard.charts.timeline import HEIGHT, bars_path

MINUTES = 60


@dataclass(frozen=True, slots=True)
class Forecast:
    """``managed`` is the workers' rate in jobs a minute; ``None`` if they have finished nothing lately."""

    due: str
    waiting: str
    line: float | None
    top: float
    coming: int
    ready: int
    managed: float | None
    worst_s: float
    worst_at_s: float
    clear_s: float | None
    left: int


def forecast(counts: Sequence[int], ready: int, managed: float | None) -> Forecast:
    """The forecast from the jobs due in each minute, the jobs ready now, and the workers' rate in jobs a minute."""
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
    clear = next((i for i, n in enumerate(waiting) if n == 0), None)
    return Forecast(
        due=bars_path(counts, height),
        waiting=_area(waiting, top),
        line=HEIGHT * (1 - pace / top) if managed else None,
        top=top,
        coming=sum(counts),
        ready=ready,
        managed=managed,
        worst_s=60 * most / pace if pace else 0.0,
        worst_at_s=60.0 * (waiting.index(most) + 1) if most else 0.0,
        clear_s=None if clear is None else 60.0 * (clear + 1),
        left=round(left),
    )


def _area(values: Sequence[float], top: float) -> str:
    if not any(values):
        return ""
    steps = [f"L{i} {HEIGHT * (1 - n / top):.1f}H{i + 1}" for i, n in enumerate(values)]
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}z"
