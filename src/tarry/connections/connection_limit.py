"""How many connections of a process may be blocked at once in waiting; beyond that many share one a node (tarry.connections.tracking).

A blocked connection waits in one slot of a Cluster. A process that waits in hundreds of them would hold hundreds.
"""

from __future__ import annotations

import os
import sys
import threading

MOST_BLOCKED = 16


class Permit:
    """The right to block one connection. Given back once, at the latest when nobody has it any more."""

    __slots__ = ("_limit", "_pid")

    def __init__(self, limit: ConnectionLimit) -> None:
        self._limit: ConnectionLimit | None = limit
        self._pid = os.getpid()

    def release(self) -> None:
        budget, self._limit = self._limit, None
        if budget is not None:
            budget.release_one(self._pid)

    def __del__(self) -> None:
        self.release()


class ConnectionLimit:
    """A number of permits, anew in each process. Thread-safe, also where the collector gives one back."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._in_use = 0

    def acquire(self) -> Permit | None:
        """A permit, if there is one left."""
        with self._lock:
            if self._in_use >= self.maximum:
                return None
            self._in_use += 1
            return Permit(self)

    def reset_after_fork(self) -> None:
        """In a forked process: the parent's are the parent's, and its threads may have held the lock."""
        self._pid, self._lock, self._in_use = os.getpid(), threading.RLock(), 0

    def release_one(self, pid: int) -> None:
        if pid == self._pid == os.getpid():
            with self._lock:
                self._in_use -= 1


BLOCKED_LIMIT = ConnectionLimit(MOST_BLOCKED)
"""In slots of Clusters, of this process, whatever clients it has."""
UNLIMITED = ConnectionLimit(sys.maxsize)
"""Of clients that have one server: each waits with one connection, blocked or not, so nothing is saved by hearing."""

if hasattr(os, "register_at_fork"):
    for one in (BLOCKED_LIMIT, UNLIMITED):
        os.register_at_fork(after_in_child=one.reset_after_fork)
