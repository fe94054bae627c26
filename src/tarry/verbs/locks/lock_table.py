"""The holds and acquisitions of one process. Pure state, without a clock, a thread or a connection.

    queue    first ─ second ─ third          one per name: the first holds the lock, or asks the server for it;
               │                             the others wait behind it, in order, without any request
    hold     token, until, depth, lost       what the first has acquired

Rules
- A thread or task that holds a lock may acquire it again; its hold counts that, over all lock objects of the name.
- A hold is lost when its time is over, when the server says so, or when the session has ended. Its listeners are called once.
- ``until`` is by the process's own clock, counted from before the request: never later than the server's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

from tarry.errors import Unavailable
from tarry.verbs.locks.lock_values import LockId

Wake = Callable[[], None]


class AcquiredLock(Protocol):
    """The answer to a successful acquisition."""

    @property
    def token(self) -> int: ...
    @property
    def until(self) -> float: ...
    @property
    def check_at(self) -> float:
        """When the watchdog is to check it first."""
        ...


@dataclass(eq=False, slots=True)
class Acquisition:
    """One acquisition in progress: who wants which lock, for how long."""

    lock: LockId
    holder: Any
    """The thread or task itself."""
    id: bytes
    """Its name on the servers: unique, so that cleaning up after one acquisition harms no other."""
    lease_us: int | None
    wake: Wake
    backend_state: Any = None
    """The backend's own state: keys, or a node."""
    lost_reason: str = ""
    """Why its lock is lost already."""

    @property
    def name(self) -> str:
        return self.lock.name


@dataclass(eq=False, slots=True)
class Hold:
    """A lock that is held."""

    acquisition: Acquisition
    token: int
    until: float
    auto_renewed: bool
    """The watchdog renews it; it has no lease of its own."""
    depth: int = 1
    lost_reason: str = ""
    """Why it was lost; empty while it is held."""
    expiry_reason: str = "its lease ended"
    """Why it will be lost when its time is over."""
    released: bool = False
    """Whether it was released."""
    grants: WeakSet[Any] = field(default_factory=WeakSet)
    """The grants of it that are still referenced."""
    listeners: list[Callable[[], object]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.acquisition.lock.name


class LockTable:
    """All locks of one client in one process (and event loop)."""

    def __init__(
        self,
        now: Callable[[], float],
        mutex: AbstractContextManager[Any],
        wake_watchdog: Callable[[], None],
        alive: Callable[[Any], bool],
    ) -> None:
        self.now = now
        self.alive = alive
        self._mutex = mutex
        self._wake_watchdog = wake_watchdog
        self._queues: dict[LockId, deque[Acquisition]] = {}
        self._holds: dict[tuple[LockId, Any], Hold] = {}
        self._to_notify: list[Callable[[], object]] = []
        self._to_clean_up: list[tuple[float, Acquisition]] = []
        self._check_at = float("inf")
        self._closed = False
        self.watchdog_wakes_at = 0.0
        """When the watchdog looks next, unless it is woken."""

    # ── the queue ────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, acquisition: Acquisition) -> bool:
        """Adds an acquisition to its queue; returns whether it is the first."""
        with self._mutex:
            queue = self._queues.setdefault(acquisition.lock, deque())
            queue.append(acquisition)
            return queue[0] is acquisition

    def is_first(self, acquisition: Acquisition) -> bool:
        queue = self._queues.get(acquisition.lock)
        return bool(queue) and queue[0] is acquisition  # type: ignore[index]

    def leave(self, acquisition: Acquisition) -> None:
        """Removes an acquisition from its queue, and wakes the next."""
        with self._mutex:
            self._leave(acquisition)

    def _leave(self, acquisition: Acquisition) -> None:
        queue = self._queues.get(acquisition.lock)
        if queue is None or acquisition not in queue:
            return
        was_first = queue[0] is acquisition
        queue.remove(acquisition)
        if not queue:
            del self._queues[acquisition.lock]
        elif was_first:
            queue[0].wake()

    def close(self) -> None:
        """Ends the acquisitions that wait; each of them raises ``Unavailable``."""
        with self._mutex:
            self._closed = True
            acquisitions = [acquisition for queue in self._queues.values() for acquisition in queue]
        for acquisition in acquisitions:
            acquisition.wake()

    def refuse_if_closed(self) -> None:
        if self._closed:
            raise Unavailable("The client was closed.")

    # ── holds ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def hold_of(self, lock: LockId, holder: Any) -> Hold | None:
        """The hold of a thread or task, if it still has one."""
        hold = self._holds.get((lock, holder))
        if hold is not None and self.expired(hold):
            return None
        return hold

    def acquired(self, acquisition: Acquisition, reply: AcquiredLock, *, auto_renewed: bool) -> Hold:
        """Turns an acquisition into a hold."""
        hold = Hold(acquisition, reply.token, reply.until, auto_renewed)
        with self._mutex:
            self._holds[acquisition.lock, acquisition.holder] = hold
            self._check_at = min(self._check_at, reply.check_at)
        if acquisition.lost_reason:
            self.lose_hold(hold, acquisition.lost_reason)
        elif min(reply.until, reply.check_at) < self.watchdog_wakes_at:
            self._wake_watchdog()
        return hold

    def mark_lost(self, acquisition: Acquisition, reason: str) -> None:
        """Marks the lock of an acquisition, now or soon acquired, as lost."""
        acquisition.lost_reason = reason
        hold = self._holds.get((acquisition.lock, acquisition.holder))
        if hold is not None and hold.acquisition is acquisition:
            self.lose_hold(hold, reason)

    def check_soon(self) -> None:
        """Wakes the watchdog to check the holds at once."""
        self._check_at = 0.0
        self._wake_watchdog()

    def recheck_all(self) -> None:
        """Wakes the watchdog to check the holds, and all acquisitions to try again: the connection has changed."""
        self._check_at = 0.0
        with self._mutex:
            first = [queue[0] for queue in self._queues.values()]
        for acquisition in first:
            acquisition.wake()
        self._wake_watchdog()

    def expired(self, hold: Hold) -> bool:
        """Whether its time is over; then it is lost."""
        if not hold.lost_reason and not hold.released and hold.until <= self.now():
            self.lose_hold(hold, hold.expiry_reason)
        return bool(hold.lost_reason)

    def released(self, hold: Hold) -> None:
        with self._mutex:
            hold.released = True
            self._forget(hold)

    def lose_hold(self, hold: Hold, reason: str) -> None:
        """Marks a hold as lost; the watchdog calls its listeners."""
        with self._mutex:
            if hold.lost_reason or hold.released:
                return
            hold.lost_reason = reason
            self._to_notify += hold.listeners
            self._to_clean_up.append((0.0, hold.acquisition))
            self._forget(hold)
        self._wake_watchdog()

    def _forget(self, hold: Hold) -> None:
        place = (hold.acquisition.lock, hold.acquisition.holder)
        if self._holds.get(place) is hold:
            del self._holds[place]
        self._leave(hold.acquisition)

    def listen(self, hold: Hold, listener: Callable[[], object]) -> None:
        """Calls ``listener`` when the hold is lost, from the watchdog; at once if it is lost already."""
        with self._mutex:
            hold.listeners.append(listener)
            if hold.lost_reason:
                self._to_notify.append(listener)
        if hold.lost_reason:
            self._wake_watchdog()

    def abandon(self, acquisition: Acquisition) -> None:
        """Leaves an interrupted acquisition, whose state on the server is unknown, to be cleaned up in the background."""
        with self._mutex:
            self._to_clean_up.append((0.0, acquisition))
            self._leave(acquisition)
        self._wake_watchdog()

    def retry_clean_up(self, acquisition: Acquisition, at: float) -> None:
        """Schedules another attempt to clean up."""
        with self._mutex:
            self._to_clean_up.append((at, acquisition))

    # ── for the watchdog ──────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def holds(self) -> list[Hold]:
        with self._mutex:
            return list(self._holds.values())

    def collect_due(self) -> tuple[list[Callable[[], object]], list[Acquisition]]:
        """Marks expired and abandoned holds as lost; returns the listeners to call, and the acquisitions to clean up."""
        for hold in self.holds:
            if not self.expired(hold) and not hold.grants and not self.alive(hold.acquisition.holder):
                self.lose_hold(hold, "the thread or task that held it has ended, and left no grant")
        now = self.now()
        with self._mutex:
            listeners, self._to_notify = self._to_notify, []
            left = [acquisition for at, acquisition in self._to_clean_up if at <= now]
            self._to_clean_up = [(at, acquisition) for at, acquisition in self._to_clean_up if at > now]
        return listeners, left

    def take_check_request(self, renewal_is_due: bool) -> bool:
        """Whether to check the holds now: their renewal is due, or a check was requested, which this call answers."""
        if renewal_is_due or self._check_at <= self.now():
            self._check_at = float("inf")
            return True
        return False

    def next_due(self) -> float:
        """When the watchdog has something to do, unless it is woken before."""
        ends = [self._check_at] + [hold.until for hold in self.holds] + [at for at, _ in self._to_clean_up]
        return min(ends, default=float("inf"))
