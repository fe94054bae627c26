"""Taking from ready lists, blocking: BLPOP in windows, on connections that do nothing else.

An element that arrives for somebody who was interrupted goes back to the head of its list.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.queueing import WINDOW_S, one_group, ready_keys
from tarry.errors import Unavailable
from tarry.idea.patience import FIRST, LONGEST
from tarry.links.blocking import RESCUE_S, Server, pack
from tarry.links.faults import TROUBLES, Elsewhere, Fault, Lost, Refused, meaning
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

Pair = tuple[bytes, bytes]
"""The list, and the payload that came from it."""


class Line:
    """One connection on which one thread waits."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection = server.connect()
        self._id = b""
        self._reply: Any = None
        self._waiting = False

    def pop(self, keys: tuple[bytes, ...], seconds: float) -> Pair | None:
        """The first payload that comes within the time. Raises a ``Fault``; what interrupts it must be followed by
        ``rescue``."""
        try:
            if not self._id:
                self._connection.send_packed_command([pack((b"CLIENT", b"ID"))], check_health=False)
                self._id = b"%d" % self._connection.read_response()
            self._waiting = True
            words = (b"BLPOP", *keys, b"%.3f" % max(seconds, 0.001))
            self._connection.send_packed_command([pack(words)], check_health=False)
            if not self._connection.can_read(seconds + self.server.answer_s):
                raise Lost("the waiting connection has been silent for too long")
            self._reply = self._connection.read_response(disconnect_on_error=False)
            self._waiting = False
        except TROUBLES as error:
            self.close()
            raise meaning(error) from error
        return self._reply and (self._reply[0], self._reply[1])

    def taken(self) -> None:
        """The caller has what came."""
        self._reply = None

    def rescue(self) -> None:
        """After an interruption: ends the wait, and puts back what came."""
        try:
            with suppress(*TROUBLES):
                if self._waiting and self._reply is None:
                    self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                    if self._connection.can_read(RESCUE_S):
                        self._reply = self._connection.read_response(disconnect_on_error=False)
                if self._reply:
                    self.server.exchange([(b"LPUSH", self._reply[0], self._reply[1])])
        finally:
            self.close()

    def close(self) -> None:
        self._connection.disconnect()


class Takers:
    """All threads of a client that wait for payloads."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._free: deque[Line] = deque()
        self._pid = os.getpid()

    def take(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, in their order. Raises a ``TarryError``."""
        keys = ready_keys(queues)
        until, failures = time.monotonic() + seconds, 0
        while (left := until - time.monotonic()) > 0:
            try:
                pair = self._window(keys, min(left, WINDOW_S))
                failures = 0
            except Refused as refusal:
                raise refusal.error from refusal
            except Fault as fault:
                time.sleep(max(min(FIRST * 2**failures, LONGEST, until - time.monotonic()), 0))
                failures = min(failures + 1, 10)
                if isinstance(fault, Elsewhere) or failures > 1:
                    with suppress(Unavailable, Fault):  # still nobody there
                        self._runner.refresh()
            else:
                if pair is not None:
                    return pair
        return None

    def _window(self, keys: tuple[bytes, ...], seconds: float) -> Pair | None:
        server = self._runner.server_of(keys[0])
        one_group({self._runner.group_of(key) for key in keys})
        line = self._borrow(server)
        try:
            pair = line.pop(keys, seconds)
            line.taken()
            self._free.append(line)
        except Fault:
            raise
        except BaseException:  # Ctrl-C, or whatever a signal's handler raised
            line.rescue()
            raise
        return pair

    def _borrow(self, server: Server) -> Line:
        if self._pid != os.getpid():
            self._pid, self._free = os.getpid(), deque()  # they are the parent's
        for line in list(self._free):
            if line.server is server:
                with suppress(ValueError):  # another thread was first
                    self._free.remove(line)
                    return line
        return Line(server)

    def close(self) -> None:
        if self._pid == os.getpid():
            with suppress(IndexError):
                while True:
                    self._free.pop().close()
