"""The lines on which a blocking client waits: some that block, and beyond those one lookout a node, for all others.

    waiter ─▶ line ── BLPOP ──▶ node          at most 16 in a process (tarry.links.budget)
    waiter ─▶ heard line ──wish──▶ lookout ── one connection, one thread ──▶ node          (tarry.links.lookout)

A lookout's connection belongs to its thread: others leave their wishes in its box, and wake it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tarry.links import budget
from tarry.links.bell import SocketBell
from tarry.links.blocking import Server, pack, read_any
from tarry.links.faults import TROUBLES, Fault, Lost, meaning
from tarry.links.lookout import LINGER_S, LOOK_AROUND_S, Orders, Wish, Words
from tarry.links.waiting import WaitingLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarry.clients.sync.engine import Engine
    from tarry.links.bell import Bell

logger = logging.getLogger("tarry")
CLOSING_S = 5.0


class Lookout:
    """One connection to one server, and its thread, as long as anybody wishes."""

    look_around_s, linger_s = LOOK_AROUND_S, LINGER_S

    def __init__(self, server: Server, *, tied: bool) -> None:
        self.server = server
        self._orders = Orders(tied=tied)
        self._box: deque[Wish] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell = SocketBell()
        self._connection: Any = None
        self._closed = False
        self._busy_at = self._looked_at = time.monotonic()
        self._owed_since: float | None = None

    def post(self, wish: Wish) -> None:
        """A new wish, or one that is not wanted any more. From any thread."""
        self._box.append(wish)
        with self._lock:
            if self._closed:
                wish.fault, wish.over = Lost("the client was closed"), True
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
            except TROUBLES as error:
                self._hang_up(meaning(error))
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
            self._hang_up(Lost("the client was closed"))
            return True

    def _read_box(self) -> None:
        if not self._box:
            return
        if self._connection is None:
            self._connection = self.server.connect(told=True)
            self._looked_at = time.monotonic()
            self._say(self._orders.begin())
        said: list[Words] = []
        while self._box:
            said += self._take(self._box.popleft())
        self._say(said)

    def _take(self, wish: Wish) -> list[Words]:
        if wish.wanted:
            return self._orders.add(wish)
        self._orders.remove(wish)
        return []

    def _rest(self) -> None:
        """Until there is something to do; looks around when it is time."""
        now = time.monotonic()
        if self._orders.idle:
            until = self._busy_at + self.linger_s
        else:
            if now >= self._looked_at + self.look_around_s:
                self._looked_at = now
                self._say(self._orders.look_around())
            until = self._looked_at + self.look_around_s
        if self._owed_since is not None:
            until = min(until, self._owed_since + self.server.answer_s)
        if self._connection is None:
            self._bell.wait(until - now)
        elif not self._connection.can_read(0):
            self._bell.wait(until - now, [self._connection._sock])

    def _hear(self) -> None:
        while self._connection is not None and self._connection.can_read(0):
            reply = read_any(self._connection)
            self._owed_since = time.monotonic()
            self._say(self._orders.read(reply))
        if not self._orders.awaiting:
            self._owed_since = None
        elif self._owed_since is not None and time.monotonic() >= self._owed_since + self.server.answer_s:
            raise Lost("the lookout's connection has been silent for too long")

    def _say(self, commands: list[Words]) -> None:
        if commands:
            self._owed_since = self._owed_since or time.monotonic()
            self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    def _hang_up(self, fault: Fault) -> None:
        connection, self._connection, self._owed_since = self._connection, None, None
        while self._box:
            self._take(self._box.popleft())
        self._orders.broke(fault)
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
        self._wish: Wish

    def go_to(self, server: Server) -> None:
        """Where the next wait is. Raises a ``Fault``."""
        try:
            self._lookout = self._lines.lookout(server)
        except OSError as error:  # no room for another bell
            raise meaning(error) from error

    def begin(self, keys: tuple[bytes, ...]) -> None:
        self._wish = Wish(keys, self._ring)
        self.keys = keys
        self._lookout.post(self._wish)

    def wait(self, seconds: float) -> tuple[bool, bytes | None]:
        """Whether the wait is over, and the key whose token came; or the bell rang. Raises a ``Fault``."""
        if not self._wish.over and (bell := self._bell()) is not None:
            bell.wait(seconds)
        if not self._wish.over:
            return False, None
        self.keys = ()
        if self._wish.fault is not None:
            raise self._wish.fault
        return True, self._wish.token

    def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        self._wish.wanted = False
        self._lookout.post(self._wish)
        by = time.monotonic() + self._lookout.server.answer_s
        while (left := by - time.monotonic()) > 0:
            over, key = self.wait(left)
            if over:
                return key
        self.drop()
        raise Lost("the lookout did not answer")

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
        self._budget = budget.BLOCKED if self._tied else budget.SINGLE
        self._lock = threading.Lock()
        self._free: list[WaitingLine] = []
        self._lookouts: dict[int, Lookout] = {}

    def take(self, near: Server | None, bell: Callable[[], Bell | SocketBell | None]) -> WaitingLine | HeardLine:
        """A line that blocks, one that is connected to this server if there is one; or one that is heard."""
        permit = self._budget.take()
        if permit is None:
            return HeardLine(self, bell)
        with self._lock:
            free = next((line for line in self._free if line.is_at(near)), self._free[-1] if self._free else None)
            if free is not None:
                self._free.remove(free)
            line = free or WaitingLine()
            line.permit = permit
            return line

    def put(self, line: WaitingLine | HeardLine) -> None:
        """Its wait is over."""
        if isinstance(line, WaitingLine):
            permit, line.permit = line.permit, None
            with self._lock:
                self._free.append(line)
            if permit is not None:
                permit.give_back()

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
