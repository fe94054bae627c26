"""Who holds and who waits in one process. Pure state: it has no clock, no thread and no connection of its own.

    gate     first ─ second ─ third          one name: the first holds the lock, or asks the server for it;
               │                             the others wait behind it, in order, and trouble nobody
    hold     token, until, depth, lost       what the first got

Rules
- A thread or task that holds a lock may take it again; that is counted in its hold, over all lock objects of the name.
- A hold is lost when its time is over, when the server says so, or when the session is gone. It is told once.
- Until is the process's own clock, counted from before the server was asked: never later than the server's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

Ring = Callable[[], None]


class Taken(Protocol):
    """What came of asking for a lock."""

    @property
    def token(self) -> int: ...
    @property
    def until(self) -> float: ...
    @property
    def look_at(self) -> float:
        """When it is to be looked after for the first time."""
        ...


@dataclass(eq=False, slots=True)
class Order:
    """One acquisition on its way: who wants which lock, for how long."""

    name: str
    holder: Any
    """The thread or task itself."""
    mark: bytes
    """What the servers know it by: no other acquisition has the same, so that tidying up after one hurts no other."""
    lease_us: int | None
    ring: Ring
    place: Any = None
    """What the keeper of the locks needs to know: keys, or a node."""
    gone: str = ""
    """Why what it got is lost already."""


@dataclass(eq=False, slots=True)
class Hold:
    """A lock that is held."""

    order: Order
    token: int
    until: float
    renewed: bool
    depth: int = 1
    lost: str = ""
    """How it was lost; empty while it is held."""
    ends: str = "its lease ended"
    """How it will be lost when its time is over."""
    over: bool = False
    """It was given back."""
    grants: WeakSet[Any] = field(default_factory=WeakSet)
    """The grants of it that somebody still has."""
    listeners: list[Callable[[], object]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.order.name


class House:
    """All locks of one client in one process (and event loop)."""

    def __init__(
        self,
        now: Callable[[], float],
        mutex: AbstractContextManager[Any],
        poke: Callable[[], None],
        alive: Callable[[Any], bool],
    ) -> None:
        self.now = now
        self.alive = alive
        self._mutex = mutex
        self._poke = poke
        self._gates: dict[str, deque[Order]] = {}
        self._holds: dict[tuple[str, Any], Hold] = {}
        self._told: list[Callable[[], object]] = []
        self._left: list[tuple[float, Order]] = []
        self._look_at = float("inf")
        self.asleep_until = 0.0
        """When whoever keeps time looks next, if nobody pokes him."""

    # ── the gate ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, order: Order) -> bool:
        """Queues up; answers whether it is the first."""
        with self._mutex:
            gate = self._gates.setdefault(order.name, deque())
            gate.append(order)
            return gate[0] is order

    def is_first(self, order: Order) -> bool:
        gate = self._gates.get(order.name)
        return bool(gate) and gate[0] is order  # type: ignore[index]

    def leave(self, order: Order) -> None:
        """Goes away; the next may ask."""
        with self._mutex:
            self._leave(order)

    def _leave(self, order: Order) -> None:
        gate = self._gates.get(order.name)
        if gate is None or order not in gate:
            return
        was_first = gate[0] is order
        gate.remove(order)
        if not gate:
            del self._gates[order.name]
        elif was_first:
            gate[0].ring()

    # ── holds ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def hold_of(self, name: str, holder: Any) -> Hold | None:
        """The hold that a thread or task has, if it still has it."""
        hold = self._holds.get((name, holder))
        if hold is not None and self.expired(hold):
            return None
        return hold

    def had(self, order: Order, taken: Taken, *, renewed: bool) -> Hold:
        """The lock was had."""
        hold = Hold(order, taken.token, taken.until, renewed)
        with self._mutex:
            self._holds[order.name, order.holder] = hold
            self._look_at = min(self._look_at, taken.look_at)
        if order.gone:
            self.lose(hold, order.gone)
        elif min(taken.until, taken.look_at) < self.asleep_until:
            self._poke()
        return hold

    def gone(self, order: Order, why: str) -> None:
        """What the order got, or is about to get, is lost."""
        order.gone = why
        hold = self._holds.get((order.name, order.holder))
        if hold is not None and hold.order is order:
            self.lose(hold, why)

    def look_soon(self) -> None:
        """Whoever keeps time looks after the holds at once."""
        self._look_at = 0.0
        self._poke()

    def hurry(self) -> None:
        """Things have changed: whoever keeps time looks after the holds at once, and all who ask ask again."""
        self._look_at = 0.0
        with self._mutex:
            first = [gate[0] for gate in self._gates.values()]
        for order in first:
            order.ring()
        self._poke()

    def expired(self, hold: Hold) -> bool:
        """Whether its time is over, which loses it."""
        if not hold.lost and not hold.over and hold.until <= self.now():
            self.lose(hold, hold.ends)
        return bool(hold.lost)

    def given_back(self, hold: Hold) -> None:
        with self._mutex:
            hold.over = True
            self._forget(hold)

    def lose(self, hold: Hold, why: str) -> None:
        """It is no longer held; who listens is told by whoever keeps time."""
        with self._mutex:
            if hold.lost or hold.over:
                return
            hold.lost = why
            self._told += hold.listeners
            self._left.append((0.0, hold.order))
            self._forget(hold)
        self._poke()

    def _forget(self, hold: Hold) -> None:
        place = (hold.name, hold.order.holder)
        if self._holds.get(place) is hold:
            del self._holds[place]
        self._leave(hold.order)

    def listen(self, hold: Hold, listener: Callable[[], object]) -> None:
        """``listener`` is called when the hold is lost; at once, by whoever keeps time, if it is already."""
        with self._mutex:
            hold.listeners.append(listener)
            if hold.lost:
                self._told.append(listener)
        if hold.lost:
            self._poke()

    def abandon(self, order: Order) -> None:
        """An order was given up, and nobody knows what the server made of it: it is tidied up in the background."""
        with self._mutex:
            self._left.append((0.0, order))
            self._leave(order)
        self._poke()

    def again(self, order: Order, at: float) -> None:
        """Tidying up was not possible yet."""
        with self._mutex:
            self._left.append((at, order))

    # ── what whoever keeps time does ─────────────────────────────────────────────────────────────────────────────────

    @property
    def holds(self) -> list[Hold]:
        with self._mutex:
            return list(self._holds.values())

    def look(self) -> tuple[list[Callable[[], object]], list[Order]]:
        """Loses what is over, and what nobody can give back; answers whom to tell, and what to tidy up."""
        for hold in self.holds:
            if not self.expired(hold) and not hold.grants and not self.alive(hold.order.holder):
                self.lose(hold, "the thread or task that held it has ended, and left no grant")
        now = self.now()
        with self._mutex:
            told, self._told = self._told, []
            left = [order for at, order in self._left if at <= now]
            self._left = [(at, order) for at, order in self._left if at > now]
        return told, left

    def is_time(self, due: bool) -> bool:
        """Whether the holds are to be looked after now: it is ``due``, or something asked for it."""
        if due or self._look_at <= self.now():
            self._look_at = float("inf")
            return True
        return False

    def next_moment(self) -> float:
        """When something is to be done, if nothing happens before."""
        ends = [self._look_at] + [hold.until for hold in self.holds] + [at for at, _ in self._left]
        return min(ends, default=float("inf"))
