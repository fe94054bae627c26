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
from tarry.verbs.locks.house import Hold, House, Order
from tarry.verbs.locks.shapes import LockState

T = TypeVar("T")
Steps = Generator[Any, Any, T]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until the order's bell rings, or this moment of the process's clock."""

    until: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do for so long, whoever rings."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Taken:
    token: int
    until: float
    look_at: float = float("inf")
    """When it is to be looked after for the first time."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Another has it; look again then, or when the bell rings."""

    until: float
    fault: TarryError | None = None
    """Nobody knows who has it, for this reason."""


class Keeper(Protocol):
    """Where locks are kept."""

    def order(self, order: Order) -> None:
        """Prepares an order; ``BadInput`` for a name that cannot be."""

    def take(self, order: Order) -> Steps[Taken | Busy]: ...

    def deeper(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        """Once more, for as long; answers whether it is still held. ``depth`` is not counted up yet."""
        ...

    def give(self, hold: Hold, left: int) -> Steps[bool]:
        """Gives back; ``left`` of the holds are left. Answers whether it was held."""
        ...

    def holds(self, hold: Hold) -> Steps[bool]:
        """Whether the server says that it is still held."""
        ...

    def give_up(self, order: Order) -> Steps[None]:
        """The time is over, and the last answer was that another has it."""
        ...

    def leave(self, order: Order) -> Steps[None]:
        """Removes what there may be of an order or a hold. Tried once: raises ``Unavailable``."""
        ...

    def stop_waiting(self, order: Order) -> None:
        """The order has ended, well or not: nothing needs to ring it any more."""

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:
        """Looks after them: all of them when it is ``due``, else those that are new or of which there was a word."""
        ...

    def state(self, name: str) -> Steps[LockState]: ...

    def force(self, name: str) -> Steps[bool]: ...


def acquire(house: House, keeper: Keeper, order: Order, wait_s: float) -> Steps[Hold | None]:
    """The hold, or ``None`` when it was not to be had in time."""
    keeper.order(order)
    deadline = house.now() + wait_s
    hold = house.hold_of(order.name, order.holder)
    if hold is not None:
        if (yield from keeper.deeper(hold, order.lease_us)):
            hold.depth += 1
            return hold
        house.lose(hold, "it was taken away")
    try:
        first = house.enter(order)
        while not first:
            if house.now() >= deadline:
                house.leave(order)
                return None
            yield Wait(deadline)
            first = house.is_first(order)
        return (yield from _take(house, keeper, order, deadline))
    except BaseException:
        house.abandon(order)
        raise
    finally:
        keeper.stop_waiting(order)


def _take(house: House, keeper: Keeper, order: Order, deadline: float) -> Steps[Hold | None]:
    while True:
        answer = yield from keeper.take(order)
        if isinstance(answer, Taken) and answer.until > house.now():
            return house.had(order, answer, renewed=order.lease_us is None)
        if house.now() >= deadline:
            yield from keeper.give_up(order)
            house.leave(order)
            if isinstance(answer, Busy) and answer.fault is not None:
                raise answer.fault
            return None
        yield Wait(min(deadline, answer.until))


def release(house: House, keeper: Keeper, hold: Hold) -> Steps[None]:
    """Gives one hold back; ``LockLost`` when it was lost before."""
    require(house, hold)
    hold.depth -= 1  # here it is counted, whatever becomes of the request
    try:
        held = yield from keeper.give(hold, hold.depth)
    except BaseException:
        if not hold.depth:
            house.given_back(hold)
            house.abandon(hold.order)
        raise
    if not held:
        house.lose(hold, "it was taken away")
        raise lost(hold)
    if not hold.depth:
        house.given_back(hold)


def check(house: House, keeper: Keeper, hold: Hold) -> Steps[None]:
    """Raises ``LockLost`` when it is lost, ``Unavailable`` when nobody can tell."""
    require(house, hold)
    if not (yield from keeper.holds(hold)):
        house.lose(hold, "it was taken away")
    require(house, hold)


def require(house: House, hold: Hold) -> None:
    """Raises what this process knows already."""
    if house.expired(hold):
        raise lost(hold)
    if hold.over:
        raise NotAcquired(f"The lock {hold.name} was given back already; acquire it again.")


def refuse_strangers(house: House, hold: Hold, me: Any) -> None:
    """Only who holds a lock gives it back, as long as he lives."""
    holder = hold.order.holder
    if holder is not me and house.alive(holder) and not hold.lost:
        raise NotAcquired(f"The lock {hold.name} is held by {holder!r}; it must be given back there.")


def lost(hold: Hold) -> LockLost:
    return LockLost(
        f"The lock {hold.name} is no longer held: {hold.lost}. Stop what needs it.",
        name=hold.name,
        token=hold.token,
        reason=hold.lost,
    )


def tidy(keeper: Keeper, order: Order) -> Steps[bool]:
    """Removes what an order may have left on the servers; answers whether it is certain."""
    try:
        yield from keeper.leave(order)
    except Unavailable:
        return False
    except TarryError:
        return True  # the server will not hear of it
    return True
