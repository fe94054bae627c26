"""How many connections of a process may be blocked at once in waiting; beyond that many share one a node (tarry.links.lookout).

A blocked connection waits in one slot of a Cluster. A process that waits in hundreds of them would hold hundreds.
"""

from __future__ import annotations

import os
import sys
import threading

MOST = 16


class Permit:
    """The right to block one connection. Given back once, at the latest when nobody has it any more."""

    __slots__ = ("_budget", "_pid")

    def __init__(self, budget: Budget) -> None:
        self._budget: Budget | None = budget
        self._pid = os.getpid()

    def give_back(self) -> None:
        budget, self._budget = self._budget, None
        if budget is not None:
            budget.returned(self._pid)

    def __del__(self) -> None:
        self.give_back()


class Budget:
    """A number of permits, anew in each process. Thread-safe, also where the collector gives one back."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._taken = 0

    def take(self) -> Permit | None:
        """A permit, if there is one left."""
        with self._lock:
            if self._taken >= self.most:
                return None
            self._taken += 1
            return Permit(self)

    def begin_anew(self) -> None:
        """In a forked process: the parent's are the parent's, and its threads may have held the lock."""
        self._pid, self._lock, self._taken = os.getpid(), threading.RLock(), 0

    def returned(self, pid: int) -> None:
        if pid == self._pid == os.getpid():
            with self._lock:
                self._taken -= 1


BLOCKED = Budget(MOST)
"""In slots of Clusters, of this process, whatever clients it has."""
SINGLE = Budget(sys.maxsize)
"""Of clients that have one server: each waits with one connection, blocked or not, so nothing is saved by hearing."""

if hasattr(os, "register_at_fork"):
    for one in (BLOCKED, SINGLE):
        os.register_at_fork(after_in_child=one.begin_anew)
