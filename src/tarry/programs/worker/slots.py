"""Slots that the topics of a worker share, by weight.

    in hand    orders ██████████ mail ███▒ audit ▒         total 16, weights 3 : 1 : 1; audit only waits

A lane without a backlog holds one slot, for which it waits, so that its next job can begin at once. The others share the
rest by weight: nobody goes beyond its part, and who has no rival takes it all.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tarry.errors import BadInput


class SlotUser(Protocol):
    """A lane, as its rivals see it."""

    weight: float

    @property
    def slots_in_use(self) -> int:
        """Slots with jobs in hand or asked for."""
        ...


class SlotPool:
    """The slots of one worker."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._users: list[SlotUser] = []
        self._greedy: set[SlotUser] = set()
        self._waiting: dict[SlotUser, asyncio.Future[None]] = {}

    def add_user(self, user: SlotUser) -> None:
        self._users.append(user)
        if len(self._users) > self._total:
            raise BadInput(f"concurrency: {self._total} slots for {len(self._users)} topics; each needs one at least.")

    def grant_slots(self, user: SlotUser, want: int, *, greedy: bool) -> int:
        """How many slots the lane may take now. ``greedy``: it has a backlog; else it only waits for its first job."""
        (self._greedy.add if greedy else self._greedy.discard)(user)
        others = sum(max(other.slots_in_use, 1) for other in self._users if other is not user)
        free = self._total - others - user.slots_in_use
        if greedy:
            shared = self._total - len(self._users) + len(self._greedy)
            part = shared * user.weight / sum(other.weight for other in self._greedy)
            free = min(free, max(round(part), 1) - user.slots_in_use)
        if user.slots_in_use == 0:
            return max(min(want, free if greedy else 1), 1)  # its own, which nobody else takes
        return max(min(want, free), 0)

    async def wait(self, user: SlotUser) -> None:
        """Until somebody is done."""
        future = self._waiting[user] = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            self._waiting.pop(user, None)

    def slot_freed(self) -> None:
        """A slot is free: all who want one look, and the rule above says who has it."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)
