"""The subscriptions of a blocking client: one connection, and one thread that reads it, for all who listen.

    hear ─▶ line ◀── server          one line; on a Cluster one for each node that has a channel which somebody wants
              │ message
              ▼
            ear.hear(channel, message)          in the line's thread: it must be quick, and not talk to the server

It begins with the first who listens and ends with the last, or with the client. A line that breaks is called again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.exceptions as driver

from tarry.clients.answers import given_up
from tarry.clients.hearing import QUIET_S, TAKEN_AWAY, Ear, Hear, Roll
from tarry.connections.blocking import Args, Server, pack
from tarry.connections.faults import CONNECTION_ERRORS, Fault, fault_of
from tarry.core.patience import LONGEST_DELAY_S
from tarry.errors import TarryError, Unavailable

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0


class Hearing:
    """Everybody of one client who listens. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._sharded = engine.origin.address.kind == "cluster"
        self._patience_s = engine.origin.patience.bound
        self._lock = threading.RLock()
        self._lines: dict[int, _Line] = {}
        self._closed = False

    def hear(self, key: bytes, channels: tuple[bytes, ...], hear: Hear, *, wait: bool = True) -> Ear:
        """From when this returns, no message of the channels is missed, unless the connection breaks.

        Raises ``Unavailable`` when the server does not confirm it in time. Without ``wait`` it is heard a little later.
        """
        confirmed = threading.Event()
        ear = Ear(key, channels, hear, confirmed.set)
        try:
            self._assign(ear)
        except Fault as fault:
            raise given_up(fault, "its URL", 0.0) from fault
        if wait and not confirmed.wait(max(self._patience_s, 1.0)):
            self.close_ear(ear)
            raise Unavailable(
                f"The server did not confirm within {self._patience_s:g} s that it will tell what happens."
            )
        return ear

    def close_ear(self, ear: Ear) -> None:
        """It hears nothing more."""
        with self._lock:
            ear.open = False
            for line in list(self._lines.values()):
                line.remove(ear)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.close()

    def _assign(self, ear: Ear) -> None:
        server = self._runner.server_of(ear.key)
        with self._lock:
            if self._closed:
                raise Unavailable("The client was closed.")
            line = self._lines.get(id(server))
            if line is None:
                line = self._lines[id(server)] = _Line(self, server, Roll(sharded=self._sharded))
            line.add(ear)

    def _ended(self, line: _Line) -> bool:
        """A line without ears ends, unless one came at the last moment."""
        with self._lock:
            if line.roll.ears:
                return False
            self._lines.pop(id(line.server), None)
            return True

    def _rehome(self, line: _Line) -> None:
        """After a line was lost: ears whose server is another one now are heard there."""
        with suppress(TarryError, Fault):
            self._runner.refresh()
        with self._lock:
            for ear in list(line.roll.ears):
                with suppress(TarryError, Fault):
                    if self._runner.server_of(ear.key) is not line.server:
                        line.remove(ear)
                        self._assign(ear)


class _Line:
    """One connection to one server, and its thread."""

    def __init__(self, hearing: Hearing, server: Server, roll: Roll) -> None:
        self.server = server
        self.roll = roll
        self._hearing = hearing
        self._connection: Any = None
        self._closed = threading.Event()
        self._asked = False
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="tarry-hearing", daemon=True)
        self._thread.start()

    def add(self, ear: Ear) -> None:
        with self._lock:
            self._say(self.roll.add(ear))

    def remove(self, ear: Ear) -> None:
        with self._lock:
            self._say(self.roll.remove(ear))

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._say([(b"PING",)])  # the answer wakes the thread
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    def _say(self, commands: list[Args]) -> None:
        """Without a connection nothing is said: a new one is told everything."""
        if self._connection is not None and commands:
            with suppress(*CONNECTION_ERRORS):  # the thread finds out
                self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        failures = 0
        while not self._closed.is_set() and not (not self.roll.ears and self._hearing._ended(self)):
            try:
                self._call()
                if self.roll.ears and not self._closed.is_set():  # let go or closed while it called, it was not told
                    self._listen()
                    failures = 0  # who may connect, but not listen, tries ever more seldom
            except CONNECTION_ERRORS as fault:
                self._hang_up()
                if not self._closed.is_set():
                    logger.info("The line that events come by broke, calling again: %s", fault)
                    self._closed.wait(min(0.02 * 2**failures, LONGEST_DELAY_S))
                    failures = min(failures + 1, 10)
                    self._hearing._rehome(self)
        self._hang_up()

    def _call(self) -> None:
        if self._connection is None:
            connection = self.server.connect()
            with self._lock:
                self._connection, self._asked = connection, False
                self._say(self.roll.anew())

    def _listen(self) -> None:
        if not self._connection.can_read(QUIET_S):
            if self._asked:
                raise fault_of(TimeoutError("the line has been silent for too long"))
            self._asked = True
            self._say([(b"PING",)])
            return
        self._asked = False
        try:
            reply = self._connection.read_response(disconnect_on_error=False)
        except driver.ResponseError as refused:
            if not self.roll.sharded or "unknown command" not in str(refused).lower():
                raise
            self.roll.sharded = False  # a Cluster that is older than sharded channels
            with self._lock:
                self._say(self.roll.anew())
            return
        if isinstance(reply, list) and reply[0] == TAKEN_AWAY and reply[1] in self._wanted():
            raise fault_of(ConnectionError("the channel's slot has moved"))
        with self._lock:
            concerned = self.roll.read(reply)
        for ear, channel, message in concerned:
            if ear.open:
                try:
                    ear.hear(channel, message)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", channel)

    def _wanted(self) -> set[bytes]:
        with self._lock:
            return {channel for ear in self.roll.ears for channel in ear.channels}

    def _hang_up(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
