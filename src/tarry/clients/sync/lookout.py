"""The lines on which a blocking client waits: some that block, and beyond those one lookout a node, for all others.

    waiter ─▶ line ── BLPOP ──▶ node          at most 16 in a process (tarry.connections.connection_limit)
    waiter ─▶ heard line ──wish──▶ lookout ── one connection, one thread ──▶ node          (tarry.connections.tracking)

A lookout's connection belongs to its thread: others leave their wishes in its box, and wake it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tarry.connections import connection_limit
from tarry.connections.blocking import Server, pack, read_push_or_reply
from tarry.connections.blocking_blpop import BlpopConnection
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, Fault, fault_of
from tarry.connections.tracking import LINGER_S, RECHECK_S, Args, TokenWait, TrackingState
from tarry.connections.wake_event import SocketBell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarry.clients.sync.engine import Engine
    from tarry.connections.wake_event import Bell

logger = logging.getLogger("tarry")
CLOSING_S = 5.0


class Lookout:
    """One connection to one server, and its thread, as long as anybody wishes."""

    look_around_s, linger_s = RECHECK_S, LINGER_S

    def __init__(self, server: Server, *, tied: bool) -> None:
        self.server = server
        self._orders = TrackingState(cluster=tied)
        self._box: deque[TokenWait] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell = SocketBell()
        self._connection: Any = None
        self._closed = False
        self._busy_at = self._looked_at = time.monotonic()
        self._owed_since: float | None = None

    def post(self, token_wait: TokenWait) -> None:
        """A new wish, or one that is not wanted any more. From any thread."""
        self._box.append(token_wait)
        with self._lock:
            if self._closed:
                token_wait.fault, token_wait.ended = ConnectionLost("the client was closed"), True
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="tarry-lookout", daemon=True)
                self._thread.start()
        self._bell.ring()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        self._bell.ring()
        if thread is not None:
            thread.join(CLOSING_S)
        self._bell.close()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            try:
                self._read_box()
                self._rest()
                self._hear()
            except CONNECTION_ERRORS as error:
                self._hang_up(fault_of(error))
            if self._is_over():
                return

    def _is_over(self) -> bool:
        """Nobody has wished for anything for a while, or ever will."""
        now = time.monotonic()
        if not self._orders.idle:
            self._busy_at = now
        with self._lock:
            if not self._closed and (self._box or now < self._busy_at + self.linger_s):
                return False
            self._thread = None
            self._hang_up(ConnectionLost("the client was closed"))
            return True

    def _read_box(self) -> None:
        if not self._box:
            return
        if self._connection is None:
            self._connection = self.server.connect(push_messages=True)
            self._looked_at = time.monotonic()
            self._say(self._orders.start())
        said: list[Args] = []
        while self._box:
            said += self._take(self._box.popleft())
        self._say(said)

    def _take(self, token_wait: TokenWait) -> list[Args]:
        if token_wait.wanted:
            return self._orders.add(token_wait)
        self._orders.remove(token_wait)
        return []

    def _rest(self) -> None:
        """Until there is something to do; looks around when it is time."""
        now = time.monotonic()
        if self._orders.idle:
            until = self._busy_at + self.linger_s
        else:
            if now >= self._looked_at + self.look_around_s:
                self._looked_at = now
                self._say(self._orders.recheck())
            until = self._looked_at + self.look_around_s
        if self._owed_since is not None:
            until = min(until, self._owed_since + self.server.answer_timeout_s)
        if self._connection is None:
            self._bell.wait(until - now)
        elif not self._connection.can_read(0):
            self._bell.wait(until - now, [self._connection._sock])

    def _hear(self) -> None:
        while self._connection is not None and self._connection.can_read(0):
            reply = read_push_or_reply(self._connection)
            self._owed_since = time.monotonic()
            self._say(self._orders.on_message(reply))
        if not self._orders.awaits_reply:
            self._owed_since = None
        elif self._owed_since is not None and time.monotonic() >= self._owed_since + self.server.answer_timeout_s:
            raise ConnectionLost("the lookout's connection has been silent for too long")

    def _say(self, commands: list[Args]) -> None:
        if commands:
            self._owed_since = self._owed_since or time.monotonic()
            self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    def _hang_up(self, fault: Fault) -> None:
        connection, self._connection, self._owed_since = self._connection, None, None
        while self._box:
            self._take(self._box.popleft())
        self._orders.connection_lost(fault)
        if connection is not None:
            connection.disconnect()
            logger.debug("A lookout hung up: %s", fault)


class HeardLine:
    """A place at a lookout, in the shape of a line that blocks. ``bell`` is that of whoever waits at the moment."""

    def __init__(self, lines: Lines, bell: Callable[[], Bell | SocketBell | None]) -> None:
        self.keys: tuple[bytes, ...] = ()
        self._lines = lines
        self._bell = bell
        self._lookout: Lookout
        self._wish: TokenWait

    def go_to(self, server: Server) -> None:
        """Where the next wait is. Raises a ``Fault``."""
        try:
            self._lookout = self._lines.lookout(server)
        except OSError as error:  # no room for another bell
            raise fault_of(error) from error

    def begin(self, keys: tuple[bytes, ...]) -> None:
        self._wish = TokenWait(keys, self._ring)
        self.keys = keys
        self._lookout.post(self._wish)

    def wait(self, seconds: float) -> tuple[bool, bytes | None]:
        """Whether the wait is over, and the key whose token came; or the bell rang. Raises a ``Fault``."""
        if not self._wish.ended and (bell := self._bell()) is not None:
            bell.wait(seconds)
        if not self._wish.ended:
            return False, None
        self.keys = ()
        if self._wish.fault is not None:
            raise self._wish.fault
        return True, self._wish.token

    def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        self._wish.wanted = False
        self._lookout.post(self._wish)
        by = time.monotonic() + self._lookout.server.answer_timeout_s
        while (left := by - time.monotonic()) > 0:
            over, key = self.wait(left)
            if over:
                return key
        self.drop()
        raise ConnectionLost("the lookout did not answer")

    def drop(self) -> None:
        if self.keys:
            self.keys = ()
            self._wish.wanted = False
            self._lookout.post(self._wish)

    def _ring(self) -> None:
        if (bell := self._bell()) is not None:
            bell.ring()


class Lines:
    """All lines of one client. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._tied = engine.origin.address.kind == "cluster"
        self._budget = connection_limit.BLOCKED_LIMIT if self._tied else connection_limit.UNLIMITED
        self._lock = threading.Lock()
        self._free: list[BlpopConnection] = []
        self._lookouts: dict[int, Lookout] = {}

    def take(self, near: Server | None, bell: Callable[[], Bell | SocketBell | None]) -> BlpopConnection | HeardLine:
        """A line that blocks, one that is connected to this server if there is one; or one that is heard."""
        permit = self._budget.acquire()
        if permit is None:
            return HeardLine(self, bell)
        with self._lock:
            free = next(
                (line for line in self._free if line.is_connected_to(near)), self._free[-1] if self._free else None
            )
            if free is not None:
                self._free.remove(free)
            line = free or BlpopConnection()
            line.permit = permit
            return line

    def put(self, line: BlpopConnection | HeardLine) -> None:
        """Its wait is over."""
        if isinstance(line, BlpopConnection):
            permit, line.permit = line.permit, None
            with self._lock:
                self._free.append(line)
            if permit is not None:
                permit.release()

    def lookout(self, server: Server) -> Lookout:
        with self._lock:
            if id(server) not in self._lookouts:
                self._lookouts[id(server)] = Lookout(server, tied=self._tied)
            return self._lookouts[id(server)]

    def close(self) -> None:
        for line in self._free:
            line.drop()
        for lookout in self._lookouts.values():
            lookout.close()
