"""The connection of a blocking client that blocks in BLPOP."""

from __future__ import annotations

import time
from typing import Any

from tarry.connections.blocking import Server, socket_of
from tarry.connections.connection_limit import Permit
from tarry.connections.faults import CONNECTION_ERRORS, REFUSED, ConnectionLost, fault_of
from tarry.connections.resp import WAIT_S, pack


class BlpopConnection:
    """The connection that blocks for all waiting callers: BLPOP on tokens is sent, awaited and ended.

    The server ends each BLPOP after ``wait_s``. If it does not, the connection is lost, even if it seems open.
    """

    wait_s = WAIT_S

    def __init__(self) -> None:
        self.server: Server
        self.permit: Permit | None = None
        self._connection: Any = None
        self._id = b""
        self._ends_by = 0.0
        self.keys: tuple[bytes, ...] = ()

    def connect_to(self, server: Server) -> None:
        """Sets the server of the next wait; after a fail-over, or when a slot has moved, it is another one."""
        if self._connection is not None and self.server is not server:
            self.drop()
        self.server = server

    def is_connected_to(self, server: Server | None) -> bool:
        """Whether it has a connection to this server."""
        return self._connection is not None and self.server is server

    @property
    def socket(self) -> Any:
        """Its socket, which can be read when the BLPOP is over."""
        return None if self._connection is None else socket_of(self._connection)

    def begin(self, keys: tuple[bytes, ...]) -> None:
        """Sends BLPOP for tokens in some keys. Raises a ``Fault``."""
        try:
            if self._connection is None:
                self._connection = self.server.connect()
                self._connection.send_packed_command([pack((b"CLIENT", b"ID"))], check_health=False)
                self._id = b"%d" % self._connection.read_response()
            self._connection.send_packed_command([pack((b"BLPOP", *keys, b"%d" % self.wait_s))], check_health=False)
        except CONNECTION_ERRORS as error:
            self.drop()
            raise fault_of(error) from error
        except BaseException:
            self.drop()
            raise
        self._ends_by = time.monotonic() + self.wait_s + self.server.answer_timeout_s
        self.keys = keys

    def wait(self, seconds: float) -> tuple[bool, bytes | None]:
        """Whether the BLPOP has ended within the time, and the key of the token. Raises a ``Fault``."""
        try:
            left = self._ends_by - time.monotonic()
            if not self._connection.can_read(max(min(seconds, left), 0)):
                if left <= seconds:
                    raise ConnectionLost("the blocked connection has been silent for too long")
                return False, None
            reply = self._connection.read_response(disconnect_on_error=False)
        except REFUSED as error:
            self.keys = ()
            raise fault_of(error) from error
        except CONNECTION_ERRORS as error:
            self.drop()
            raise fault_of(error) from error
        except BaseException:  # a reply may be half read
            self.drop()
            raise
        self.keys = ()
        return True, reply[0] if reply else None

    def end(self) -> bytes | None:
        """Ends the BLPOP. Returns the key of a token that came at the last moment. Raises a ``Fault``."""
        self._ends_by = min(self._ends_by, time.monotonic() + self.server.answer_timeout_s)
        while self.keys:
            try:
                self.interrupt()
            except BaseException:
                self.drop()
                raise
            over, key = self.wait(0.05)
            if over:
                return key
        return None

    def interrupt(self) -> None:
        """Unblocks the BLPOP, from any thread. Raises a ``Fault``."""
        if self._connection is None:  # not yet, or no longer
            return
        self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])

    def drop(self) -> None:
        connection, self._connection, self.keys = self._connection, None, ()
        if connection is not None:
            connection.disconnect()
