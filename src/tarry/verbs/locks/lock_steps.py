"""Acquire, release, check: each a generator of steps, which the blocking and the awaited client perform alike.

WaitUntil(moment)   until the acquisition is woken, or the moment comes
anything else       a request to the servers, answered or failed

enter the queue ──first?──▶ try_acquire ──busy──▶ WaitUntil ──┐
      └──behind others──▶ WaitUntil                           │ it was released, its lease ended, or a look is due
                          ▲                                   │
                          └───────────────────────────────────┘      one deadline for all of it
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tarry.errors import LockLost, NotAcquired, TarryError, Unavailable
from tarry.verbs.locks.lock_table import Acquisition, Hold, LockTable
from tarry.verbs.locks.lock_values import LockId, LockState

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Wait until the acquisition is woken, or until this moment of the process's clock."""

    until: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for that time, even if the acquisition is woken."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Acquired:
    token: int
    until: float
    check_at: float = float("inf")
    """When the watchdog is to check it first."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another holder has the lock; try again at this moment, or when woken."""

    until: float
    fault: TarryError | None = None
    """The servers could not be asked, for this reason."""


class LockBackend(Protocol):
    """A server that keeps locks."""

    def prepare(self, acquisition: Acquisition) -> None:
        """Prepares an acquisition. Raises ``BadInput`` for a name that is not allowed."""

    def try_acquire(self, acquisition: Acquisition) -> Steps[Acquired | Busy]: ...

    def reenter(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        """Acquires the lock again, with a lease. Returns whether it is still held. ``depth`` is not incremented yet."""
        ...

    def release(self, hold: Hold, depth_left: int) -> Steps[bool]:
        """Releases the lock down to ``depth_left`` holds. Returns whether it was held."""
        ...

    def is_held(self, hold: Hold) -> Steps[bool]:
        """Asks the server whether it is still held."""
        ...

    def give_up(self, acquisition: Acquisition) -> Steps[None]:
        """Ends an acquisition that timed out; the last answer was that another holder has the lock."""
        ...

    def remove(self, acquisition: Acquisition) -> Steps[None]:
        """Removes what an acquisition or a hold may have left on the server. Tried once: raises ``Unavailable``."""
        ...

    def stop_waiting(self, acquisition: Acquisition) -> None:
        """The acquisition has ended, and needs no wake-up any more."""

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """Renews and checks holds: all of them when it is ``due``, else those that are new or suspected to be lost."""
        ...

    def state(self, lock: LockId) -> Steps[LockState]: ...

    def force_release(self, lock: LockId) -> Steps[bool]: ...


def acquire(table: LockTable, backend: LockBackend, acquisition: Acquisition, wait_s: float) -> Steps[Hold | None]:
    """The hold, or ``None`` if the lock was not acquired in time."""
    backend.prepare(acquisition)
    deadline = table.now() + wait_s
    hold = table.hold_of(acquisition.lock, acquisition.holder)
    if hold is not None:
        if (yield from backend.reenter(hold, acquisition.lease_us)):
            hold.depth += 1
            return hold
        table.lose_hold(hold, "it was taken away")
    try:
        first = table.enter(acquisition)
        while not first:
            if table.now() >= deadline:
                table.leave(acquisition)
                return None
            yield WaitUntil(deadline)
            table.refuse_if_closed()
            first = table.is_first(acquisition)
        return (yield from _acquire(table, backend, acquisition, deadline))
    except BaseException:
        table.abandon(acquisition)
        raise
    finally:
        backend.stop_waiting(acquisition)


def _acquire(table: LockTable, backend: LockBackend, acquisition: Acquisition, deadline: float) -> Steps[Hold | None]:
    while True:
        answer = yield from backend.try_acquire(acquisition)
        if isinstance(answer, Acquired) and answer.until > table.now():
            return table.acquired(acquisition, answer, auto_renewed=acquisition.lease_us is None)
        if table.now() >= deadline:
            yield from backend.give_up(acquisition)
            table.leave(acquisition)
            if isinstance(answer, Busy) and answer.fault is not None:
                raise answer.fault
            return None
        yield WaitUntil(min(deadline, answer.until))
        table.refuse_if_closed()


def release(table: LockTable, backend: LockBackend, hold: Hold) -> Steps[None]:
    """Releases one hold. Raises ``LockLost`` if it was lost before."""
    require_held(table, hold)
    hold.depth -= 1  # counted here, even if the request fails
    try:
        held = yield from backend.release(hold, hold.depth)
    except BaseException:
        if not hold.depth:
            table.released(hold)
            table.abandon(hold.acquisition)
        raise
    if not held:
        table.lose_hold(hold, "it was taken away")
        raise lock_lost(hold)
    if not hold.depth:
        table.released(hold)


def check(table: LockTable, backend: LockBackend, hold: Hold) -> Steps[None]:
    """Raises ``LockLost`` if it is lost, ``Unavailable`` if the servers cannot be asked."""
    require_held(table, hold)
    if not (yield from backend.is_held(hold)):
        table.lose_hold(hold, "it was taken away")
    require_held(table, hold)


def require_held(table: LockTable, hold: Hold) -> None:
    """Raises ``LockLost`` or ``NotAcquired`` by what this process knows, without asking."""
    if table.expired(hold):
        raise lock_lost(hold)
    if hold.released:
        raise NotAcquired(f"The lock {hold.name} was released already; acquire it again.")


def require_holder(table: LockTable, hold: Hold, releaser: Any) -> None:
    """Refuses a release by another thread or task, as long as the holder is alive."""
    holder = hold.acquisition.holder
    if holder is not releaser and table.alive(holder) and not hold.lost_reason:
        raise NotAcquired(f"The lock {hold.name} is held by {holder!r}; it must be released there.")


def lock_lost(hold: Hold) -> LockLost:
    return LockLost(
        f"The lock {hold.name} is no longer held: {hold.lost_reason}. Stop what needs it.",
        name=hold.name,
        token=hold.token,
        reason=hold.lost_reason,
    )


def clean_up(backend: LockBackend, acquisition: Acquisition) -> Steps[bool]:
    """Removes what an acquisition may have left on the servers; returns whether that is certain."""
    try:
        yield from backend.remove(acquisition)
    except Unavailable:
        return False
    except TarryError:
        return True  # the server has never received it
    return True
