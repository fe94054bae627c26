"""Taking from ready lists, blocking: BLPOP in windows, on connections that do nothing else.

An element that arrives for an interrupted caller goes back to the head of its list. On a Cluster lists may lie in several slots:
then one thread waits on a connection for each, and an element that comes on a second connection meanwhile goes back.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.clients.redisson.queue_waits import SILENT, Pair, Windows, blpop, ready_keys
from tarry.connections.blocking import Server, socket_of
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, Fault, fault_of
from tarry.connections.resp import DRAIN_TIMEOUT_S, pack
from tarry.errors import Unavailable
from tarry.values.keys import QueueKeys


class PopConnection:
    """One connection on which one thread waits."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection = server.connect()
        self._id = b""
        self._reply: Any = None
        self._waiting = False
        self.closed = False

    def begin(self, keys: tuple[bytes, ...], seconds: float) -> None:
        """Sends the wait. Raises a ``Fault``. After an interruption call ``put_back``."""
        try:
            if not self._id:
                self._connection.send_packed_command([pack((b"CLIENT", b"ID"))], check_health=False)
                self._id = b"%d" % self._connection.read_response()
            self._waiting = True
            self._connection.send_packed_command([pack(blpop(keys, seconds))], check_health=False)
        except CONNECTION_ERRORS as error:
            self.close()
            raise fault_of(error) from error

    def has_answer(self, seconds: float = 0) -> bool:
        """Returns whether an answer comes within the time. Raises a ``Fault``."""
        try:
            return bool(self._connection.can_read(seconds))
        except CONNECTION_ERRORS as error:
            self.close()
            raise fault_of(error) from error

    def fileno(self) -> int:
        return int(socket_of(self._connection).fileno())

    def end(self) -> Pair | None:
        """Reads the answer."""
        try:
            self._reply = self._connection.read_response(disconnect_on_error=False)
            self._waiting = False
        except CONNECTION_ERRORS as error:
            self.close()
            raise fault_of(error) from error
        return self._reply and (self._reply[0], self._reply[1])

    def mark_taken(self) -> None:
        """Forgets the answer: the caller has taken the element."""
        self._reply = None

    def withdraw(self) -> None:
        """Ends the wait, after another connection was faster. An element that came goes back."""
        if self._waiting:
            self.put_back()

    def put_back(self) -> None:
        """After an interruption: ends the wait, and puts back an element that came."""
        try:
            with suppress(*CONNECTION_ERRORS):
                if self._waiting and self._reply is None:
                    self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                    if self._connection.can_read(DRAIN_TIMEOUT_S):
                        self._reply = self._connection.read_response(disconnect_on_error=False)
                if self._reply:
                    self.server.exchange([(b"LPUSH", self._reply[0], self._reply[1])])
        finally:
            self.close()

    def close(self) -> None:
        self.closed, self._waiting, self._reply = True, False, None
        self._connection.disconnect()


def first_answer(connections: Sequence[PopConnection], seconds: float) -> PopConnection | None:
    """Returns the first connection on which an answer comes within the time. Raises a ``Fault``."""
    if len(connections) == 1:
        return connections[0] if connections[0].has_answer(seconds) else None
    until = time.monotonic() + seconds
    with DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, EVENT_READ)
        while True:
            for connection in connections:
                if connection.has_answer():
                    return connection
            if (left := until - time.monotonic()) <= 0:
                return None
            selector.select(left)


def _race(connections: Sequence[PopConnection], seconds: float) -> tuple[PopConnection | None, Pair | None]:
    """Returns the first connection on which an element comes, and the element. Raises a ``Fault``."""
    waiting = list(connections)
    while waiting:
        connection = first_answer(waiting, seconds + max(connection.server.answer_timeout_s for connection in waiting))
        if connection is None:
            for connection in waiting:
                connection.close()
            raise ConnectionLost(SILENT)
        pair = connection.end()
        if pair is not None:
            return connection, pair
        waiting.remove(connection)
    return None, None


class ListPops:
    """All threads of a client that wait for payloads."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._runner = engine.runner
        self._idle: deque[PopConnection] = deque()
        self._pid = os.getpid()

    def take(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, in their order, or the first that comes. Raises a ``TarryError``."""
        groups = ready_keys(queues, self._runner.group_of)
        windows = Windows(time.monotonic(), seconds)
        while (window := windows.next(time.monotonic())) is not None:
            try:
                pair = self._window(groups, window)
            except Fault as fault:
                time.sleep(windows.pause_after(fault, time.monotonic()))
                if windows.needs_refresh:
                    with suppress(Unavailable, Fault):  # no server yet
                        self._runner.refresh()
            else:
                windows.answered()
                if pair is not None:
                    return pair
        windows.raise_fault(self._runner.shown)
        return None

    def _window(self, groups: Sequence[tuple[bytes, ...]], seconds: float) -> Pair | None:
        """Returns the first element that comes on any of the connections, and ends the waits on the others."""
        connections: list[PopConnection] = []
        try:
            for keys in groups:
                connections.append(self._borrow(self._runner.server_of(keys[0])))
                connections[-1].begin(keys, seconds)
            winner, pair = _race(connections, seconds)
            for connection in connections:
                if connection is not winner:
                    connection.withdraw()
            if winner is not None:
                winner.mark_taken()
        except BaseException:  # a fault, Ctrl-C, or an error that a signal's handler raised
            for connection in connections:
                connection.put_back()
            raise
        self._idle.extend(connection for connection in connections if not connection.closed)
        return pair

    def _borrow(self, server: Server) -> PopConnection:
        if self._pid != os.getpid():
            self._pid, self._idle = os.getpid(), deque()  # they are the parent's
        for connection in list(self._idle):
            if connection.server is server:
                with suppress(ValueError):  # another thread was first
                    self._idle.remove(connection)
                    return connection
        return PopConnection(server)

    def close(self) -> None:
        if self._pid == os.getpid():
            with suppress(IndexError):
                while True:
                    self._idle.pop().close()
