"""Slots that the topics of a worker share, by weight.

    in hand    orders ██████████ mail ███▒ audit ▒         total 16, weights 3 : 1 : 1; audit only waits

Who has no rival takes what is free. Where several want more, nobody goes beyond its weight's part among those who want:
a freed slot goes to the one that is furthest behind. A lane that waits for its first job holds one slot, no more, so that
the job can begin at once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tarry.errors import BadInput


class Sharer(Protocol):
    """A lane, as its rivals see it."""

    weight: float

    @property
    def taken(self) -> int:
        """Slots with jobs in hand or asked for."""
        ...


class Share:
    """The slots of one worker."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._lanes: list[Sharer] = []
        self._hungry: dict[Sharer, asyncio.Future[None]] = {}

    def join(self, lane: Sharer) -> None:
        self._lanes.append(lane)
        if len(self._lanes) > self._total:
            raise BadInput(f"concurrency: {self._total} slots for {len(self._lanes)} topics; each needs one at least.")

    def grant(self, lane: Sharer, want: int, *, greedy: bool) -> int:
        """How many slots the lane may take now. ``greedy``: it has a backlog; else it only waits for its first job."""
        others = sum(max(other.taken, 1) for other in self._lanes if other is not lane)
        free = self._total - others - lane.taken
        if not greedy:
            return min(want, 1) if lane.taken == 0 else max(min(want, free), 0)
        rivals = [other for other in self._hungry if other is not lane]
        if rivals:
            busy = [other for other in self._lanes if other is lane or other.taken > 1 or other in self._hungry]
            part = self._total * lane.weight / sum(other.weight for other in busy)
            free = min(free, max(int(part), 1) - lane.taken)
        if lane.taken == 0:
            return max(min(want, free), 1)  # its own, which nobody else takes
        return max(min(want, free), 0)

    async def wait(self, lane: Sharer) -> None:
        """Until somebody is done."""
        future = self._hungry[lane] = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            self._hungry.pop(lane, None)

    def freed(self) -> None:
        """A slot is free: all who want one look, and the rule above says who has it."""
        for future in self._hungry.values():
            if not future.done():
                future.set_result(None)
