"""Slots that the topics of a worker share, by weight.

    in hand    orders ██████████ mail ███▒ audit ▒         total 16, weights 3 : 1 : 1; audit only waits

A lane without a backlog holds one slot, for which it waits, so that its next job can begin at once. The others share the
rest by weight: nobody goes beyond its part, and who has no rival takes it all.
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
        self._greedy: set[Sharer] = set()
        self._hungry: dict[Sharer, asyncio.Future[None]] = {}

    def join(self, lane: Sharer) -> None:
        self._lanes.append(lane)
        if len(self._lanes) > self._total:
            raise BadInput(f"concurrency: {self._total} slots for {len(self._lanes)} topics; each needs one at least.")

    def grant(self, lane: Sharer, want: int, *, greedy: bool) -> int:
        """How many slots the lane may take now. ``greedy``: it has a backlog; else it only waits for its first job."""
        (self._greedy.add if greedy else self._greedy.discard)(lane)
        others = sum(max(other.taken, 1) for other in self._lanes if other is not lane)
        free = self._total - others - lane.taken
        if greedy:
            shared = self._total - len(self._lanes) + len(self._greedy)
            part = shared * lane.weight / sum(other.weight for other in self._greedy)
            free = min(free, max(round(part), 1) - lane.taken)
        if lane.taken == 0:
            return max(min(want, free if greedy else 1), 1)  # its own, which nobody else takes
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
