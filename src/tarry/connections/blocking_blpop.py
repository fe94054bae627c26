"""The connection of a blocking client that waits."""

from __future__ import annotations

import time
from typing import Any

import redis.exceptions as driver

from tarry.connections.blocking import Server, pack
from tarry.connections.connection_limit import Permit
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, fault_of

WAIT_S = 60
"""The server ends a wait by itself after so long; it is begun again."""


class BlpopConnection:
    """The one connection that blocks, for all who wait: BLPOP over tokens, begun, awaited, ended.

    The server ends a wait by itself from time to time. A line on which it did not is dead, however open it looks.
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
        """Where the next wait is; after a fail-over, or when a slot has moved, that is somewhere else."""
        if self._connection is not None and self.server is not server:
            self.drop()
        self.server = server

    def is_connected_to(self, server: Server | None) -> bool:
        """Whether it is connected there."""
        return self._connection is not None and self.server is server

    @property
    def socket(self) -> Any:
        """Can be read when the wait is over."""
        return None if self._connection is None else self._connection._sock

    def begin(self, keys: tuple[bytes, ...]) -> None:
        """Waits for a token in one of the keys. Raises a ``Fault``."""
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
        """Whether the wait has ended within the time, and the key whose token came. Raises a ``Fault``."""
        try:
            left = self._ends_by - time.monotonic()
            if not self._connection.can_read(max(min(seconds, left), 0)):
                if left <= seconds:
                    raise ConnectionLost("the waiting connection has been silent for too long")
                return False, None
            reply = self._connection.read_response(disconnect_on_error=False)
        except driver.ResponseError as error:
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
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
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
        """Wakes whoever waits, from any thread. Raises a ``Fault``."""
        if self._connection is None:  # not yet, or no longer
            return
        self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])

    def drop(self) -> None:
        connection, self._connection, self.keys = self._connection, None, ()
        if connection is not None:
            connection.disconnect()
