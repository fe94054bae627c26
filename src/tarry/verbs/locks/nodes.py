"""Locks kept in ZooKeeper: one node for each who wants it, in sequence; the lowest has the lock.

    /namespace/name/_c_MARK-lock-0000000007      has it: its czxid is the fencing token
                    _c_MARK-lock-0000000008      watches ..07, and nothing else
                    _c_MARK-lock-0000000009      watches ..08

Rules
- The node is ephemeral: it goes with its session. It is named and placed as Curator's InterProcessMutex does.
- A lease is written in the node. When it is over, the owner's timer deletes the node; if that does not come (a frozen
  process whose heartbeats go on), the first who waits does, having watched the same node hold the lock for the lease and
  GRACE_S more by its own clock: no two clocks are compared.
- Every node that an acquisition may have left is found by its mark, and removed, also after a lost answer.
- A connection that was lost for longer than the session may live is a lost session, whatever the server will say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tarry.errors import BadInput, Unavailable
from tarry.values import names
from tarry.values.durations import SECOND
from tarry.verbs.locks.acquiring import Busy, Pause, Steps, Taken
from tarry.verbs.locks.house import Hold, House, Order
from tarry.verbs.locks.line import SEQUENCE, Place, Ticket, in_sequence, prefix, read
from tarry.verbs.locks.requests import Ask, Children, Create, Cut, Delete, Look, Session, Write
from tarry.verbs.locks.shapes import LockState

GRACE_S = 1.0
LOOK_AROUND_S = 10.0
WATCHED_AFTER_S = 0.25
"""A lock that is held for longer is watched: its owner learns when somebody deletes its node."""
AGAIN_S, AGAIN_AT_MOST_S = 0.05, 1.0
CUT_OFF = "its connection was lost for longer than its session may live"


class NodeKeeper:
    """Keeps locks in ZooKeeper."""

    def __init__(self, house: House, session: Session, namespace: str, who: str, patience_s: float) -> None:
        self._house = house
        self._session = session
        self._namespace = namespace
        self._who = who
        self._patience_s = patience_s

    def base_of(self, name: str) -> str:
        names.check_name(name, "lock")
        if any(part in ("", ".", "..") or SEQUENCE.fullmatch(part) for part in name.split("/")):
            raise BadInput(
                f"lock: {name!r} is no path of ZooKeeper; leave out empty parts, dots and '-lock-0000000000'."
            )
        return f"/{self._namespace}/{name}"

    def order(self, order: Order) -> None:
        order.place = Place(self.base_of(order.name))

    # ── taking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, order: Order) -> Steps[Taken | Busy]:
        place: Place = order.place
        try:
            answer = yield from self._take(order, place)
        except Cut as cut:
            now = self._house.now()
            place.cut_since = place.cut_since if place.cut_since is not None else now
            if now - place.cut_since >= self._patience_s:
                raise self._unavailable(cut) from cut
            pause = min(AGAIN_S * 2 ** min(place.cuts, 6), AGAIN_AT_MOST_S)
            place.cuts += 1
            return Busy(now + pause, self._unavailable(cut))
        place.cut_since, place.cuts = None, 0
        return answer

    def _take(self, order: Order, place: Place) -> Steps[Taken | Busy]:
        asked = self._house.now()
        if not place.path or place.session != self._session.id:
            children = yield from self._queue_up(order, place)
            own: Any = True  # it was made just now, by this session, before the children were read
        else:
            children, found = yield Ask((Children(place.base), Look(place.path)))
            own = found is not None and found[1].session == self._session.id
        line, mine = in_sequence(children), place.path.rpartition("/")[2]
        if not own or mine not in line:
            place.session = -1  # the session has ended, or somebody deleted it: from the beginning
            return Busy(self._house.now())
        index = line.index(mine)
        if index == 0:
            place.looked = float("-inf")
            place.ends = asked + order.lease_us / SECOND if order.lease_us is not None else float("inf")
            return Taken(place.token, place.ends, look_at=self._house.now() + WATCHED_AFTER_S)
        return (yield from self._wait_for(order, place, line[index - 1], first=index == 1))

    def _watch(self, order: Order) -> Callable[[bool], None]:
        def ring(deleted: bool) -> None:
            if deleted and not order.place.leaving:
                self._house.gone(order, "its node was deleted")

        return ring

    def _queue_up(self, order: Order, place: Place) -> Steps[list[str]]:
        """Makes the order's node; answers who is in line. What an earlier try may have left goes first."""
        if place.session or place.cut_since is not None:
            yield from self._remove(order)
        place.session = self._session.id
        ops = (Create(f"{place.base}/{prefix(order)}", self._ticket(order.lease_us)), Children(place.base))
        (path, stat), children = yield Ask(ops)  # ZooKeeper does them in this order
        place.path, place.session, place.token = path, stat.session, stat.czxid
        self._session.id = stat.session  # it may be known from here first
        if not children:  # the lock's own node had to be made first
            (children,) = yield Ask((Children(place.base),))
        found: list[str] = children
        return found

    def _wait_for(self, order: Order, place: Place, before: str, *, first: bool) -> Steps[Busy]:
        path = f"{place.base}/{before}"
        (found,) = yield Ask((Look(path, lambda _: order.ring()),))
        now = self._house.now()
        if found is None:
            return Busy(now)
        data, stat = found
        if not first:
            return Busy(now + LOOK_AROUND_S)
        if place.seen != (before, stat.version):
            place.seen, place.seen_since = (before, stat.version), now
        lease_ms = read(data).lease_ms
        if lease_ms is None:
            return Busy(now + LOOK_AROUND_S)
        overdue = place.seen_since + lease_ms / 1000 + GRACE_S
        if now < overdue:
            return Busy(min(overdue, now + LOOK_AROUND_S))
        yield Ask((Delete(path),))
        return Busy(now)

    def stop_waiting(self, order: Order) -> None:
        """Watches end by themselves."""

    # ── holding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def deeper(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        place: Place = hold.order.place
        ends = self._house.now() + lease_us / SECOND if lease_us is not None else float("inf")
        if ends <= place.ends and place.ends != float("inf"):
            return (yield from self.holds(hold))
        data = self._ticket(lease_us)

        look = Look(place.path, self._watch(hold.order))
        ops = (look,) if ends == place.ends else (Write(place.path, data), look)
        *_, found = yield from self._patiently(*ops)
        if found is None:
            return False
        place.ends = max(place.ends, ends)
        hold.until = place.ends
        return True

    def give(self, hold: Hold, left: int) -> Steps[bool]:
        if left:
            return True
        place: Place = hold.order.place
        place.leaving = True  # its end is no loss
        since: float | None = None
        while True:
            try:
                (there,) = yield Ask((Delete(place.path),))
            except Cut as cut:
                since = yield from self._hold_on(since, cut)
            else:
                return bool(there or since is not None)

    def holds(self, hold: Hold) -> Steps[bool]:
        place: Place = hold.order.place
        try:
            (found,) = yield Ask((Look(place.path),))
        except Cut as cut:
            raise self._unavailable(cut) from cut
        return found is not None and found[1].czxid == hold.token and found[1].session == self._session.id

    def give_up(self, order: Order) -> Steps[None]:
        """Leaves the line."""
        try:
            yield from self._remove(order)
        except Cut:
            self._house.abandon(order)

    def leave(self, order: Order) -> Steps[None]:
        try:
            yield from self._remove(order)
        except Cut as cut:
            raise self._unavailable(cut) from cut

    def _remove(self, order: Order) -> Steps[None]:
        place: Place = order.place
        if place.path and place.session == self._session.id:
            yield Ask((Delete(place.path),))
            if place.cut_since is None:
                return
        (children,) = yield Ask((Children(place.base),))
        left = [name for name in children if name.startswith(prefix(order))]
        if left:
            yield Ask(tuple(Delete(f"{place.base}/{name}") for name in left))

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:  # noqa: ARG002  # each has a time of its own
        """Looks after the nodes, and watches them: a session renews itself."""
        now = self._house.now()
        chosen = [hold for hold in holds if now - hold.order.place.looked > LOOK_AROUND_S - 1]
        if not chosen or not self._session.connected:
            return
        try:
            found = yield Ask(tuple(Look(hold.order.place.path, self._watch(hold.order)) for hold in chosen))
        except Cut:
            return  # those are looked at when there is a connection again
        for hold, node in zip(chosen, found, strict=True):
            hold.order.place.looked = now
            if node is None or node[1].session != self._session.id:
                self._house.lose(hold, "its node was deleted")

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def cut_off(self) -> None:
        """No connection: what is held is lost when the session may have ended."""
        self._session.connected = False
        bound = self._house.now() + self._session.timeout_s
        for hold in self._house.holds:
            if bound < hold.until:
                hold.until, hold.ends = bound, CUT_OFF
        self._house.hurry()

    def connected(self, session: int) -> None:
        """A connection again; of the same session, or of another."""
        self._session.id, self._session.connected = session, True
        for hold in self._house.holds:
            if hold.order.place.session == session and not self._house.expired(hold):
                hold.order.place.looked = float("-inf")  # watches ended with the connection
                hold.until, hold.ends = hold.order.place.ends, "its lease ended"
            else:
                self._house.lose(hold, "its session ended")
        self._house.hurry()

    def ended(self) -> None:
        """The session is over."""
        self._session.id, self._session.connected = 0, False
        for hold in self._house.holds:
            self._house.lose(hold, "its session ended")

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self, name: str) -> Steps[LockState]:
        base = self.base_of(name)
        (children,) = yield from self._patiently(Children(base))
        for index, first in enumerate(line := in_sequence(children)):
            (found,) = yield from self._patiently(Look(f"{base}/{first}"))
            if found is not None:
                data, stat = found
                who = read(data).who or f"session {stat.session:#x}"
                return LockState(name, True, who, 1, stat.czxid, None, len(line) - index - 1)
        return LockState(name, False, None, 0, None, None, 0)

    def force(self, name: str) -> Steps[bool]:
        base = self.base_of(name)
        (children,) = yield from self._patiently(Children(base))
        for first in in_sequence(children)[:1]:
            (there,) = yield from self._patiently(Delete(f"{base}/{first}"))
            return bool(there)
        return False

    def known(self) -> Steps[list[str]]:
        """The names below the namespace that somebody has locked; those of several parts are not looked for."""
        (found,) = yield from self._patiently(Children(f"/{self._namespace}"))
        return sorted(found)

    def _patiently(self, *ops: Any) -> Steps[Any]:
        since: float | None = None
        while True:
            try:
                return (yield Ask(ops))
            except Cut as cut:
                since = yield from self._hold_on(since, cut)

    def _hold_on(self, since: float | None, cut: Cut) -> Steps[float]:
        now = self._house.now()
        since = since if since is not None else now
        if now - since >= self._patience_s:
            raise self._unavailable(cut) from cut
        yield Pause(AGAIN_S)
        return since

    def _ticket(self, lease_us: int | None) -> bytes:
        return msgspec.json.encode(Ticket(self._who, None if lease_us is None else -(-lease_us // 1000)))

    def _unavailable(self, cut: Cut) -> Unavailable:
        return Unavailable(f"ZooKeeper did not answer: {cut}. The call is safe to repeat.")
