"""Locks in ZooKeeper: one sequential node for each acquisition; the lowest has the lock.

    /tarry/NAMESPACE/LOCK/_c_MARK-lock-0000000007      holds it: its czxid is the fencing token
                          _c_MARK-lock-0000000008      watches ..07, and nothing else
                          _c_MARK-lock-0000000009      watches ..08

Rules
- The node is ephemeral: it ends with its session. It is named like those of Curator's InterProcessMutex.
- A lock that is shared with Java is below its path there, and not below ``/tarry``.
- A lease is written in the node. When it is over, the owner's timer deletes the node; if it does not (a frozen process whose
  heartbeats go on), the first waiter does, after it has seen the same node hold the lock for the lease and GRACE_S more, by its
  own clock: no two clocks are compared.
- Every node that an acquisition may have left is found by its mark, and removed, also after a lost answer.
- If the connection is lost for longer than the session timeout, the session counts as lost, whatever the server says later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tarry.errors import BadInput, Unavailable
from tarry.values import names
from tarry.values.durations import SECOND
from tarry.verbs.locks.lock_steps import Acquired, Busy, Sleep, Steps
from tarry.verbs.locks.lock_table import Acquisition, Hold, LockTable
from tarry.verbs.locks.lock_values import LockId, LockState
from tarry.verbs.locks.zookeeper_requests import (
    SEQUENCE,
    ConnectionInterrupted,
    CreateNode,
    DeleteNode,
    ListChildren,
    NodeData,
    QueuedNode,
    ReadNode,
    SessionState,
    WriteNode,
    ZooKeeperBatch,
    node_prefix,
    parse_node,
    sort_nodes,
)

EXPIRY_GRACE_S = 1.0
RECHECK_S = 10.0
WATCHED_AFTER_S = 0.25
"""After this time a lock's node is watched, so that its owner learns when it is deleted."""
AGAIN_S = 0.05
SESSION_LOST = "its connection was lost for longer than its session may live"


class ZooKeeperBackend:
    """The backend for ZooKeeper."""

    def __init__(self, table: LockTable, session: SessionState, namespace: str, owner: str, patience_s: float) -> None:
        self._table = table
        self._session = session
        self._root = f"/tarry/{namespace}"
        self._owner = owner
        self._patience_s = patience_s

    def base_of(self, lock: LockId) -> str:
        names.check_name(lock.name, "lock")
        path = lock.name if lock.shared else f"/{lock.name}"
        if not path.startswith("/"):
            raise BadInput(
                f"lock: {path!r} is no path of ZooKeeper; a shared lock has Curator's, such as '/locks/stock'."
            )
        if any(part in ("", ".", "..") or SEQUENCE.fullmatch(part) for part in path[1:].split("/")):
            raise BadInput(
                f"lock: {lock.name!r} is not a path of ZooKeeper; leave out empty parts, dots and '-lock-0000000000'."
            )
        return path if lock.shared else self._root + path

    def prepare(self, acquisition: Acquisition) -> None:
        acquisition.backend_state = QueuedNode(self.base_of(acquisition.lock))

    # ── acquiring ────────────────────────────────────────────────────────────────────────────────────────────────────

    def try_acquire(self, acquisition: Acquisition) -> Steps[Acquired | Busy]:
        place: QueuedNode = acquisition.backend_state
        try:
            answer = yield from self._try_acquire(acquisition, place)
        except ConnectionInterrupted as cut:
            now = self._table.now()
            place.disconnected_since = place.disconnected_since if place.disconnected_since is not None else now
            if now - place.disconnected_since >= self._patience_s:
                raise self._unavailable(cut) from cut
            return Busy(now + place.retry_delay.next_delay(), self._unavailable(cut))
        place.disconnected_since = None
        place.retry_delay.reset()
        return answer

    def _try_acquire(self, acquisition: Acquisition, place: QueuedNode) -> Steps[Acquired | Busy]:
        asked = self._table.now()
        if not place.path or place.session != self._session.id:
            children = yield from self._create_node(acquisition, place)
        else:
            (children,) = yield ZooKeeperBatch((ListChildren(place.base),))
        line, mine = sort_nodes(children), place.path.rpartition("/")[2]
        if mine not in line:
            place.session = -1  # the session has ended, or the node was deleted: start again
            return Busy(self._table.now())
        index = line.index(mine)
        if index == 0:
            place.looked = float("-inf")
            place.ends = asked + acquisition.lease_us / SECOND if acquisition.lease_us is not None else float("inf")
            return Acquired(place.token, place.ends, check_at=self._table.now() + WATCHED_AFTER_S)
        return (yield from self._wait_for(acquisition, place, line[index - 1], first=index == 1))

    def _watch_node(self, acquisition: Acquisition) -> Callable[[bool], None]:
        def on_change(deleted: bool) -> None:
            if deleted and not acquisition.backend_state.leaving:
                self._table.mark_lost(acquisition, "its node was deleted")

        return on_change

    def _create_node(self, acquisition: Acquisition, place: QueuedNode) -> Steps[list[str]]:
        """Creates the acquisition's node, after removing those of earlier tries; returns the queued nodes."""
        if place.session or place.disconnected_since is not None:
            yield from self._remove(acquisition)
        place.session = self._session.id
        ops = (
            CreateNode(f"{place.base}/{node_prefix(acquisition)}", self._node_data(acquisition.lease_us)),
            ListChildren(place.base),
        )
        (path, stat), children = yield ZooKeeperBatch(ops)  # ZooKeeper performs them in this order
        place.path, place.session, place.token = path, stat.session, stat.czxid
        self._session.id = stat.session  # this may be the first answer that tells it
        if not children:  # the lock's own node had to be created first
            (children,) = yield ZooKeeperBatch((ListChildren(place.base),))
        found: list[str] = children
        return found

    def _wait_for(self, acquisition: Acquisition, place: QueuedNode, predecessor: str, *, first: bool) -> Steps[Busy]:
        path = f"{place.base}/{predecessor}"
        (found,) = yield ZooKeeperBatch((ReadNode(path, lambda _: acquisition.wake()),))
        now = self._table.now()
        if found is None:
            return Busy(now)
        data, stat = found
        if not first:
            return Busy(now + RECHECK_S)
        if place.seen != (predecessor, stat.version):
            place.seen, place.seen_since = (predecessor, stat.version), now
        lease_ms = parse_node(data).lease_ms
        if lease_ms is None:
            return Busy(now + RECHECK_S)
        overdue = place.seen_since + lease_ms / 1000 + EXPIRY_GRACE_S
        if now < overdue:
            return Busy(min(overdue, now + RECHECK_S))
        yield ZooKeeperBatch((DeleteNode(path),))
        return Busy(now)

    def stop_waiting(self, acquisition: Acquisition) -> None:
        """Watches end by themselves."""

    # ── holding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def reenter(self, hold: Hold, lease_us: int | None) -> Steps[bool]:
        place: QueuedNode = hold.acquisition.backend_state
        ends = self._table.now() + lease_us / SECOND if lease_us is not None else float("inf")
        if ends <= place.ends and place.ends != float("inf"):
            return (yield from self.is_held(hold))
        data = self._node_data(lease_us)

        look = ReadNode(place.path, self._watch_node(hold.acquisition))
        ops = (look,) if ends == place.ends else (WriteNode(place.path, data), look)
        *_, found = yield from self._perform(*ops)
        if found is None:
            return False
        place.ends = max(place.ends, ends)
        hold.until = place.ends
        return True

    def release(self, hold: Hold, depth_left: int) -> Steps[bool]:
        if depth_left:
            return True
        place: QueuedNode = hold.acquisition.backend_state
        place.leaving = True  # its deletion is no loss
        since: float | None = None
        while True:
            try:
                (there,) = yield ZooKeeperBatch((DeleteNode(place.path),))
            except ConnectionInterrupted as cut:
                since = yield from self._retry_pause(since, cut)
            else:
                return bool(there or since is not None)

    def is_held(self, hold: Hold) -> Steps[bool]:
        place: QueuedNode = hold.acquisition.backend_state
        try:
            (found,) = yield ZooKeeperBatch((ReadNode(place.path),))
        except ConnectionInterrupted as cut:
            raise self._unavailable(cut) from cut
        return found is not None and found[1].czxid == hold.token and found[1].session == self._session.id

    def give_up(self, acquisition: Acquisition) -> Steps[None]:
        """Deletes the acquisition's node."""
        try:
            yield from self._remove(acquisition)
        except ConnectionInterrupted:
            self._table.abandon(acquisition)

    def remove(self, acquisition: Acquisition) -> Steps[None]:
        try:
            yield from self._remove(acquisition)
        except ConnectionInterrupted as cut:
            raise self._unavailable(cut) from cut

    def _remove(self, acquisition: Acquisition) -> Steps[None]:
        place: QueuedNode = acquisition.backend_state
        if place.path and place.session == self._session.id:
            yield ZooKeeperBatch((DeleteNode(place.path),))
            if place.disconnected_since is None:
                return
        (children,) = yield ZooKeeperBatch((ListChildren(place.base),))
        left = [name for name in children if name.startswith(node_prefix(acquisition))]
        if left:
            yield ZooKeeperBatch(tuple(DeleteNode(f"{place.base}/{name}") for name in left))

    def renew(self, holds: Iterable[Hold], *, due: bool) -> Steps[None]:  # noqa: ARG002  # each hold has its own time
        """Checks and watches the nodes; the session renews itself."""
        now = self._table.now()
        chosen = [hold for hold in holds if now - hold.acquisition.backend_state.looked > RECHECK_S - 1]
        if not chosen or not self._session.connected:
            return
        try:
            found = yield ZooKeeperBatch(
                tuple(
                    ReadNode(hold.acquisition.backend_state.path, self._watch_node(hold.acquisition)) for hold in chosen
                )
            )
        except ConnectionInterrupted:
            return  # they are checked when there is a connection again
        for hold, node in zip(chosen, found, strict=True):
            hold.acquisition.backend_state.looked = now
            if node is None or node[1].session != self._session.id:
                self._table.lose_hold(hold, "its node was deleted")

    # ── the connection ───────────────────────────────────────────────────────────────────────────────────────────────

    def suspended(self) -> None:
        """The connection was lost: holds are lost when the session may have ended."""
        self._session.connected = False
        bound = self._table.now() + self._session.timeout_s
        for hold in self._table.holds:
            if bound < hold.until:
                hold.until, hold.expiry_reason = bound, SESSION_LOST
        self._table.recheck_all()

    def connected(self, session: int) -> None:
        """The connection is back, with the same session or another one."""
        self._session.id, self._session.connected = session, True
        for hold in self._table.holds:
            if hold.acquisition.backend_state.session == session and not self._table.expired(hold):
                hold.acquisition.backend_state.looked = float("-inf")  # watches ended with the connection
                hold.until, hold.expiry_reason = hold.acquisition.backend_state.ends, "its lease ended"
            else:
                self._table.lose_hold(hold, "its session ended")
        self._table.recheck_all()

    def expired(self) -> None:
        """The session has ended."""
        self._session.id, self._session.connected = 0, False
        for hold in self._table.holds:
            self._table.lose_hold(hold, "its session ended")

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self, lock: LockId) -> Steps[LockState]:
        name, base = lock.name, self.base_of(lock)
        (children,) = yield from self._perform(ListChildren(base))
        for index, first in enumerate(line := sort_nodes(children)):
            (found,) = yield from self._perform(ReadNode(f"{base}/{first}"))
            if found is not None:
                data, stat = found
                who = parse_node(data).who or f"session {stat.session:#x}"
                return LockState(
                    name=name,
                    held=True,
                    holder=who,
                    depth=1,
                    token=stat.czxid,
                    remaining=None,
                    waiting=len(line) - index - 1,
                )
        return LockState(name=name, held=False, holder=None, depth=0, token=None, remaining=None, waiting=0)

    def force_release(self, lock: LockId) -> Steps[bool]:
        base = self.base_of(lock)
        (children,) = yield from self._perform(ListChildren(base))
        for first in sort_nodes(children)[:1]:
            (there,) = yield from self._perform(DeleteNode(f"{base}/{first}"))
            return bool(there)
        return False

    def list_names(self) -> Steps[list[str]]:
        """The names of the namespace's locks; those of several parts are not listed."""
        (found,) = yield from self._perform(ListChildren(self._root))
        return sorted(found)

    def _perform(self, *ops: Any) -> Steps[Any]:
        since: float | None = None
        while True:
            try:
                return (yield ZooKeeperBatch(ops))
            except ConnectionInterrupted as cut:
                since = yield from self._retry_pause(since, cut)

    def _retry_pause(self, since: float | None, cut: ConnectionInterrupted) -> Steps[float]:
        now = self._table.now()
        since = since if since is not None else now
        if now - since >= self._patience_s:
            raise self._unavailable(cut) from cut
        yield Sleep(AGAIN_S)
        return since

    def _node_data(self, lease_us: int | None) -> bytes:
        return msgspec.json.encode(NodeData(self._owner, None if lease_us is None else -(-lease_us // 1000)))

    def _unavailable(self, cut: ConnectionInterrupted) -> Unavailable:
        return Unavailable(f"ZooKeeper did not answer: {cut}. The call is safe to repeat.")
