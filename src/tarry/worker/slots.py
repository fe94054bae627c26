"""Slots that the topics of a worker share, by weight; and the quota of jobs of a child process.

    in use     orders ██████████ mail ███▒ audit ▒         total 16, weights 3 : 1 : 1; audit only waits

A topic takes a slot when it pops, not while it waits, so there may be any number of topics. Those with a backlog share the slots
by weight: none takes more than its part, and a single one takes all but a few. These are kept for the topics without a backlog, one
for each, at most half of all, so that their next jobs can start at once. Topics that want a slot when there is none stand in line; those
that have none come first.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol


@dataclass(eq=False, slots=True)
class SlotGroup:
    """The topics of a pattern: they have at most ``most`` slots together."""

    most: int
    in_use: int = 0


class SlotUser(Protocol):
    """A consumer that takes slots from the pool."""

    weight: float
    group: SlotGroup | None

    @property
    def slots_in_use(self) -> int:
        """Slots with running jobs, or with jobs that were requested."""
        ...


@dataclass(frozen=True, slots=True)
class _Use:
    """The use of the slots at a moment. ``part`` is how many a backlog of weight 1 may have."""

    free: int
    kept: int
    part: float


class SlotPool:
    """The slots of one worker. Only the topics that use slots, or wait for one, cost time."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._users = 0
        self._groups: list[SlotGroup] = []
        self._active: dict[SlotUser, None] = {}
        """Those that may have slots in use."""
        self._greedy: set[SlotUser] = set()
        self._weight = 0.0
        """Of all greedy ones."""
        self._line: dict[SlotUser, asyncio.Future[None]] = {}
        self._called: set[SlotUser] = set()
        """Those that were told to take a slot, and have not yet: one is kept for each."""

    def add_user(self, group: SlotGroup | None = None) -> None:
        self._users += 1
        if group is not None and group not in self._groups:
            self._groups.append(group)

    def own_slots(self, user: SlotUser, slots: int) -> int:
        """How many of a topic's ``slots`` no other one takes: the one that is kept for it, unless there are too many topics."""
        if self._users == 1:
            return slots
        return int(user.group is None and self._users <= self._total // 2)

    def take(self, user: SlotUser, max_jobs: int, *, greedy: bool) -> int:
        """How many slots the user may take now. ``greedy``: it has a backlog; otherwise it only waits for its next job."""
        self._note_greedy(user, greedy)
        self._called.discard(user)
        granted = self._grant(user, max_jobs, self._look())
        if granted:
            self._active[user] = None
        return granted

    def _look(self) -> _Use:
        in_use = light = 0
        for group in self._groups:
            group.in_use = sum(user.group is group for user in self._called)
        for user in list(self._active):
            slots = user.slots_in_use
            in_use += slots
            if user.group is not None:
                user.group.in_use += slots
            if not slots:
                del self._active[user]
            elif user not in self._greedy:
                light += 1
        kept = min(self._users - len(self._greedy), self._total // 2)
        return _Use(
            free=self._total - in_use - len(self._called),
            kept=max(kept - light, 0),
            part=(self._total - kept) / self._weight if self._greedy else 0,
        )

    def _note_greedy(self, user: SlotUser, greedy: bool) -> None:
        if greedy and user not in self._greedy:
            self._greedy.add(user)
            self._weight += user.weight
        elif not greedy and user in self._greedy:
            self._greedy.remove(user)
            self._weight = self._weight - user.weight if self._greedy else 0.0

    def _grant(self, user: SlotUser, max_jobs: int, use: _Use) -> int:
        own = user.slots_in_use
        if user.group is not None:
            max_jobs = min(max_jobs, user.group.most - user.group.in_use)
        if user in self._greedy:
            part = max(round(use.part * user.weight), 1)
            return max(min(max_jobs, use.free - use.kept, part - own), 0)
        if own == 0:
            return max(min(1, max_jobs, use.free), 0)
        return max(min(max_jobs, use.free - use.kept), 0)

    async def wait(self, user: SlotUser) -> None:
        """Stands in line until there is a slot for the user, which is kept until it takes or leaves it."""
        called = self._line[user] = asyncio.get_running_loop().create_future()
        self.slot_freed()
        try:
            await called
        except BaseException:
            self.leave(user)
            raise

    def leave(self, user: SlotUser) -> None:
        """Notes that a user does not want a slot any more."""
        self._note_greedy(user, False)
        self._line.pop(user, None)
        self._called.discard(user)
        self.slot_freed()

    def slot_freed(self) -> None:
        """Calls as many of those that wait as there are slots for."""
        while self._line and (use := self._look()).free > 0 and (user := self._next_in_line(use)) is not None:
            self._called.add(user)
            called = self._line.pop(user)
            if not called.done():
                called.set_result(None)

    def _next_in_line(self, use: _Use) -> SlotUser | None:
        """The first that has no slot, else the one with the smallest part of what it may have."""
        best: SlotUser | None = None
        for user in self._line:
            if not self._grant(user, 1, use):
                continue
            if not user.slots_in_use:
                return user
            if best is None or user.slots_in_use / user.weight < best.slots_in_use / best.weight:
                best = user
        return best


def slots_for(jobs: int, jobs_a_slot: int) -> int:
    """How many slots they need."""
    return -(-jobs // jobs_a_slot)


class WaitGate:
    """The slots of one wait of a user: taken when a pop is due, and given back when that brings nothing.

    A topic with partitions may pop from several at the same time. They share the slots, for only one of them brings jobs.
    """

    def __init__(self, pool: SlotPool, user: SlotUser, max_jobs: int, jobs_a_slot: int = 1) -> None:
        self._pool, self._user, self._max_jobs, self._jobs_a_slot = pool, user, max_jobs, jobs_a_slot
        self._pops = 0
        self.slots = 0
        self.refused = False
        """Whether the wait has ended because there was no slot."""
        self._ended = False

    def take_slots(self) -> int:
        """For how many jobs there are slots."""
        if not self._pops:
            wanted = slots_for(self._max_jobs, self._jobs_a_slot)
            self.slots = self._pool.take(self._user, wanted, greedy=False)
        self._pops += bool(self.slots)
        self.refused = not self.slots
        return min(self.slots * self._jobs_a_slot, self._max_jobs)

    def give_slots_back(self) -> None:
        self._pops -= 1
        if not self._pops and not self._ended:
            self.slots = 0
            self._pool.leave(self._user)

    def end(self) -> int:
        """The wait is over. Returns how many slots it had taken."""
        self._ended, slots, self.slots = True, self.slots, 0
        return slots


class JobQuota:
    """The jobs that this process may still take (``--max-jobs-per-child``). All its topics share them."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.used_up = asyncio.Event()

    def take(self, jobs: int) -> None:
        self.left -= jobs
        if self.left <= 0:
            self.used_up.set()
