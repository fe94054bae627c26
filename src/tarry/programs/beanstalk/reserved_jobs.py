"""The jobs that one connection has reserved, by number, and when the first time to run ends.

The deadlines are a heap, so that a connection with many jobs reserves the next as fast as the first. An entry whose job was
settled or touched meanwhile stays in it until it comes to the top, or until such entries are half of the heap.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry.programs.beanstalk.tubes import Tube
    from tarry.types import BaseJob
    from tarry.wire.bodies import Body

SMALL = 64
"""A heap of this size is not cleaned."""


@dataclass(slots=True)
class TubeJob:
    """A job that the connection has reserved, and when its TTR ends by the loop's clock."""

    job: BaseJob[Body]
    tube: Tube
    ends: float


class ReservedJobs:
    """The jobs of one connection."""

    def __init__(self) -> None:
        self._jobs: dict[int, TubeJob] = {}
        self._deadlines: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def __setitem__(self, number: int, reserved: TubeJob) -> None:
        self._jobs[number] = reserved
        self._note(number, reserved.ends)

    def get(self, number: int) -> TubeJob | None:
        """A job, which stays here."""
        return self._jobs.get(number)

    def pop(self, number: int) -> TubeJob | None:
        """Removes a job; ``None`` if it is not here."""
        return self._jobs.pop(number, None)

    def take_all(self) -> list[TubeJob]:
        """Removes all jobs."""
        jobs = list(self._jobs.values())
        self._jobs.clear()
        self._deadlines.clear()
        return jobs

    def rename(self, number: int, new: int) -> None:
        """Puts a job under another number."""
        self[new] = self._jobs.pop(number)

    def renew(self, number: int, ends: float) -> None:
        """Another end of a job's TTR."""
        reserved = self._jobs.get(number)
        if reserved is not None:
            reserved.ends = ends
            self._note(number, ends)

    def first_deadline(self, now: float) -> float:
        """When the first TTR ends; infinite if there is none. Removes the jobs whose TTR is over."""
        while self._deadlines:
            ends, number = self._deadlines[0]
            if self._is_current(ends, number):
                if ends > now:
                    return ends
                del self._jobs[number]
            heappop(self._deadlines)
        return float("inf")

    def _note(self, number: int, ends: float) -> None:
        heappush(self._deadlines, (ends, number))
        if len(self._deadlines) > 2 * len(self._jobs) + SMALL:
            self._deadlines = [(mine.ends, number) for number, mine in self._jobs.items()]
            heapify(self._deadlines)

    def _is_current(self, ends: float, number: int) -> bool:
        reserved = self._jobs.get(number)
        return reserved is not None and reserved.ends == ends
