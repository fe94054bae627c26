"""The results of a row: turns, readings with their spread, and lines of the table with their targets."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Literal

QUARTERS_FROM = 8
"""From this many values on the spread is the interquartile range; of fewer it is from the smallest to the largest."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One side's turn: elapsed seconds, and seconds of processor time of client and server, for a number of jobs."""

    jobs: int
    wall_s: float
    client_cpu_s: float
    server_cpu_s: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.wall_s


@dataclass(frozen=True, slots=True)
class Reading:
    """The same thing measured several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """The interquartile range as a fraction of the median; of few values the range."""
        low, high = min(self.values), max(self.values)
        if len(self.values) >= QUARTERS_FROM:
            low, _, high = statistics.quantiles(self.values, n=4)
        return (high - low) / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a row: a lower or upper limit of the ratio to the yardstick, or of the value itself."""

    sign: Literal["≥", "≤"]
    limit: float
    of: Literal["ratio", "value"] = "value"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table."""

    row: str
    measure: str
    unit: str
    tarry: Reading
    reach: Target | None = None
    yardstick: Reading | None = None
    details: dict[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return self.tarry.median / self.yardstick.median if self.yardstick else None

    @property
    def met(self) -> bool | None:
        """Whether the target was met; ``None`` without a target."""
        if self.reach is None:
            return None
        value = self.ratio if self.reach.of == "ratio" else self.tarry.median
        if value is None:
            return None
        return value >= self.reach.limit if self.reach.sign == "≥" else value <= self.reach.limit


def rates(turns: list[Turn]) -> Reading:
    return Reading(tuple(turn.per_second for turn in turns))


def traffic(before: tuple[int, int], after: tuple[int, int], jobs: int) -> dict[str, float | str]:
    """Bytes a job, to the server and from it."""
    return {"tarry bytes in": (after[0] - before[0]) / jobs, "tarry bytes out": (after[1] - before[1]) / jobs}


def costs(turns: list[Turn], whose: str) -> dict[str, float | str]:
    """Microseconds of processor time a job, on both ends."""
    return {
        f"{whose} client µs": statistics.median(turn.client_cpu_s / turn.jobs * 1e6 for turn in turns),
        f"{whose} server µs": statistics.median(turn.server_cpu_s / turn.jobs * 1e6 for turn in turns),
    }
