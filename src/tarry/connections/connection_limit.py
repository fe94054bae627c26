"""The limit of blocked connections of a process; further waits share one connection per node (tarry.connections.tracking).

A blocked connection waits in one slot of a Cluster. A process that waits in hundreds of slots would need hundreds of them.
"""

from __future__ import annotations

import os
import sys
import threading

MOST_BLOCKED = 16


class Permit:
    """The right to block one connection. It is released once, at the latest when it is garbage collected."""

    __slots__ = ("_limit", "_pid")

    def __init__(self, limit: ConnectionLimit) -> None:
        self._limit: ConnectionLimit | None = limit
        self._pid = os.getpid()

    def release(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.release_one(self._pid)

    def __del__(self) -> None:
        self.release()


class ConnectionLimit:
    """A number of permits of this process. Thread-safe, even while the garbage collector releases one."""

    def __init__(self, maximum: int) -> None:
        self.maximum = maximum
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._in_use = 0

    def acquire(self) -> Permit | None:
        """A permit, or ``None`` if all are in use."""
        with self._lock:
            if self._in_use >= self.maximum:
                return None
            self._in_use += 1
            return Permit(self)

    def reset_after_fork(self) -> None:
        """In a forked process: no permit is in use, and the lock is new, for a thread of the parent may have held the old one."""
        self._pid, self._lock, self._in_use = os.getpid(), threading.RLock(), 0

    def release_one(self, pid: int) -> None:
        if pid == self._pid == os.getpid():
            with self._lock:
                self._in_use -= 1


BLOCKED_LIMIT = ConnectionLimit(MOST_BLOCKED)
"""For slots of Clusters, of all clients of this process."""
UNLIMITED = ConnectionLimit(sys.maxsize)
"""For clients with one server: each waits with one connection anyway, so tracking would save nothing."""

if hasattr(os, "register_at_fork"):
    for limit in (BLOCKED_LIMIT, UNLIMITED):
        os.register_at_fork(after_in_child=limit.reset_after_fork)
