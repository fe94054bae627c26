"""Slots that the topics of a worker share, by weight; and the quota of jobs of a child process.

    in use     orders ██████████ mail ███▒ audit ▒         total 16, weights 3 : 1 : 1; audit only waits

A topic without a backlog keeps one slot and waits for a job, so that its next job can start at once. The topics with a
backlog share the rest by weight: none takes more than its part, and a single one takes it all.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from tarry.errors import BadInput


class SlotUser(Protocol):
    """A consumer that takes slots from the pool."""

    weight: float

    @property
    def slots_in_use(self) -> int:
        """Slots with running jobs, or with jobs that were requested."""
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

    def grant_slots(self, user: SlotUser, max_jobs: int, *, greedy: bool) -> int:
        """How many slots the user may take now. ``greedy``: it has a backlog; otherwise it only waits for its next job."""
        (self._greedy.add if greedy else self._greedy.discard)(user)
        others = sum(max(other.slots_in_use, 1) for other in self._users if other is not user)
        free = self._total - others - user.slots_in_use
        if greedy:
            shared = self._total - len(self._users) + len(self._greedy)
            part = shared * user.weight / sum(other.weight for other in self._greedy)
            free = min(free, max(round(part), 1) - user.slots_in_use)
        if user.slots_in_use == 0:
            return max(min(max_jobs, free if greedy else 1), 1)  # its own slot, which no other user takes
        return max(min(max_jobs, free), 0)

    async def wait(self, user: SlotUser) -> None:
        """Waits until a slot is freed."""
        future = self._waiting[user] = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            self._waiting.pop(user, None)

    def slot_freed(self) -> None:
        """Wakes all waiting users; ``grant_slots`` decides which one gets the slot."""
        for future in self._waiting.values():
            if not future.done():
                future.set_result(None)


class JobQuota:
    """The jobs that this process may still take (``--max-jobs-per-child``). All its topics share them."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.used_up = asyncio.Event()

    def take(self, jobs: int) -> None:
        self.left -= jobs
        if self.left <= 0:
            self.used_up.set()
