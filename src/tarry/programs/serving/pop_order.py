"""The pop order in advance: which of a partition's jobs come out until a moment, and when, while a slot is always free.

    jobs and occurrences, by their moment  ──▶  those that are due, by priority  ──▶  handed out, when the rate allows one
                                                                                 └─▶  dead, if it is too late by then

The same as lua/topic/pop.lua and lib/limits.lua do. A schedule fires at its moment, at the end of a pause, or now: then a consumer waits,
for a slot is free. Pure functions; each job costs a step or two, so the caller bounds the work by the jobs that it gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarry.internal import DueSoon

FAR = math.inf


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits, or an occurrence of a schedule: when it is due, its task, and how late it may be handed out (0: as the
    topic says)."""

    due_us: int
    task: str | None
    max_lateness_us: int = 0
    priority: int = 0
    from_schedule: bool = False

    def latest(self, part: DueSoon[Any]) -> float:
        """The last moment at which it is handed out."""
        return self.due_us + (self.max_lateness_us or part.max_lateness_us or FAR)


class RateLeft:
    """A partition's rate, and how much of it is used up (lua/lib/limits.lua)."""

    def __init__(self, part: DueSoon[Any]) -> None:
        self._count, self._span, self._burst = part.rate
        self._since, self._used = part.spent

    @property
    def interval_us(self) -> float:
        """From a job to the next, once the burst is used up; 0 without a rate."""
        return self._span / self._count if self._count else 0.0

    def next_at(self, at: float) -> float:
        """The first moment from ``at`` on at which it allows a job."""
        if not self._count:
            return at
        since, used = self._at(at)
        return max(at, since + math.ceil((used + 1 - self._burst) * self._span / self._count))

    def take(self, at: float) -> None:
        """Notes that a job was handed out."""
        if not self._count:
            return
        since, used = self._at(at)
        whole = (used + 1) // self._count
        self._since, self._used = since + whole * self._span, used + 1 - whole * self._count

    def allowed(self, at: int, until: int) -> int:
        """How many jobs it allows between two moments, the second included."""
        since, used = self._at(at)
        return max((until - since) * self._count // self._span + self._burst - used, 0)

    def _at(self, at: float) -> tuple[int, int]:
        ends = self._since + self._used * self._span / self._count
        if ends <= at:
            return int(at), 0
        if ends > at + self._burst * self._span / self._count + 1:
            return int(at), self._burst - 1
        return self._since, self._used


def hand_outs(part: DueSoon[Any], jobs: Sequence[WaitingJob], until_us: float, most: int) -> int:
    """How many of the jobs are handed out until a moment, that included; ``most`` if they are that many."""
    coming = sorted(jobs, key=lambda job: job.due_us)
    ready: list[tuple[int, int, int, WaitingJob]] = []
    rate, at, read, handed = RateLeft(part), float(max(part.now_us, part.paused_us)), 0, 0
    while handed < most and (ready or read < len(coming)):
        if not ready:
            at = max(at, coming[read].due_us)
        at = rate.next_at(at)
        if at > until_us:
            break
        while read < len(coming) and coming[read].due_us <= at:
            job = coming[read]
            heappush(ready, (-job.priority, job.due_us, read, job))
            read += 1
        *_, job = heappop(ready)
        if at <= job.latest(part):
            rate.take(at)
            handed += 1
    return handed
