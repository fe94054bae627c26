"""Acquire, release, check: each a generator of steps, which the blocking and the awaiting client perform alike.

Wait(until)     until the bell of the order rings, or the moment comes
anything else   a request to the servers, answered or failed

enter the gate ──first?──▶ take ──busy──▶ Wait ──┐
      └──behind others──▶ Wait                   │ the holder released it, it ended, or we look around
                          ▲                      │
                          └──────────────────────┘      one deadline for all of it
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tarry.errors import LockLost, NotAcquired, TarryError, Unavailable
from tarry.verbs.locks.lock_table import Acquisition, Hold, LockTable
from tarry.verbs.locks.models import LockState

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do until the order's bell rings, or this moment of the process's clock."""

    until: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Nothing to do for so long, whoever rings."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Acquired:
    token: int
    until: float
    check_at: float = float("inf")
    """When it is to be looked after for the first time."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another has it; look again then, or when the bell rings."""

    until: float
    fault: TarryError | None = None
    """Nobody knows who has it, for this reason."""


class LockBackend(Protocol):
    """Where locks are kept."""

    def prepare(self, acquisition: Acquisition) -> None:
        """Prepares an order; ``BadInput`` for a name that cannot be."""

    def try_acquire(self, acquisition: Acquisition) -> Steps[Acquired | Busy]: ...

    def reenter(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        """Once more, for as long; answers whether it is still held. ``depth`` is not counted up yet."""
        ...

    def release(self, hold: Hold, depth_left: int) -> Steps[bool]:
        """Gives back; ``left`` of the holds are left. Answers whether it was held."""
        ...

    def is_held(self, hold: Hold) -> Steps[bool]:
        """Whether the server says that it is still held."""
        ...

    def give_up(self, acquisition: Acquisition) -> Steps[None]:
        """The time is over, and the last answer was that another has it."""
        ...

    def remove(self, acquisition: Acquisition) -> Steps[None]:
        """Removes what there may be of an order or a hold. Tried once: raises ``Unavailable``."""
        ...

    def stop_waiting(self, acquisition: Acquisition) -> None:
        """The order has ended, well or not: nothing needs to ring it any more."""

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """Looks after them: all of them when it is ``due``, else those that are new or of which there was a word."""
        ...

    def state(self, name: str) -> Steps[LockState]: ...

    def force_release(self, name: str) -> Steps[bool]: ...


def acquire(table: LockTable, backend: LockBackend, acquisition: Acquisition, wait_s: float) -> Steps[Hold | None]:
    """The hold, or ``None`` when it was not to be had in time."""
    backend.prepare(acquisition)
    deadline = table.now() + wait_s
    hold = table.hold_of(acquisition.name, acquisition.holder)
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
            return table.acquired(acquisition, answer, renewed=acquisition.lease_us is None)
        if table.now() >= deadline:
            yield from backend.give_up(acquisition)
            table.leave(acquisition)
            if isinstance(answer, Busy) and answer.fault is not None:
                raise answer.fault
            return None
        yield WaitUntil(min(deadline, answer.until))


def release(table: LockTable, backend: LockBackend, hold: Hold) -> Steps[None]:
    """Gives one hold back; ``LockLost`` when it was lost before."""
    require_held(table, hold)
    hold.depth -= 1  # here it is counted, whatever becomes of the request
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
    """Raises ``LockLost`` when it is lost, ``Unavailable`` when nobody can tell."""
    require_held(table, hold)
    if not (yield from backend.is_held(hold)):
        table.lose_hold(hold, "it was taken away")
    require_held(table, hold)


def require_held(table: LockTable, hold: Hold) -> None:
    """Raises what this process knows already."""
    if table.expired(hold):
        raise lock_lost(hold)
    if hold.released:
        raise NotAcquired(f"The lock {hold.name} was given back already; acquire it again.")


def require_holder(table: LockTable, hold: Hold, me: Any) -> None:
    """Only who holds a lock gives it back, as long as he lives."""
    holder = hold.acquisition.holder
    if holder is not me and table.alive(holder) and not hold.lost_reason:
        raise NotAcquired(f"The lock {hold.name} is held by {holder!r}; it must be given back there.")


def lock_lost(hold: Hold) -> LockLost:
    return LockLost(
        f"The lock {hold.name} is no longer held: {hold.lost_reason}. Stop what needs it.",
        name=hold.name,
        token=hold.token,
        reason=hold.lost_reason,
    )


def clean_up(backend: LockBackend, acquisition: Acquisition) -> Steps[bool]:
    """Removes what an order may have left on the servers; answers whether it is certain."""
    try:
        yield from backend.remove(acquisition)
    except Unavailable:
        return False
    except TarryError:
        return True  # the server will not hear of it
    return True
