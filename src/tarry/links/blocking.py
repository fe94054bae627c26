"""Reaching one server, blocking: a few connections for requests, one more for waiting.

Any number of threads may exchange at once; each takes a connection that is free, or a new one. A connection that failed
takes all the free ones with it: after a restart they are as dead as it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import redis.exceptions as driver
from hiredis import pack_command as _pack

from tarry.links.address import ANSWER_S, connection_class
from tarry.links.faults import Fault, meaning

Words = tuple[bytes, ...]
Replies = list[Any]
"""One for each command: a value, or a ``Fault``."""

RESCUE_S = 1.0
WAIT_S = 60
"""The server ends a wait by itself after so long; it is begun again."""


def pack(words: Words) -> bytes:
    """One command as it goes over the wire."""
    packed: bytes = _pack(words)  # type: ignore[arg-type]  # its stub wants a tuple of one
    return packed


class Server:
    """One server, by its URL."""

    def __init__(self, url: str) -> None:
        self._class, self._arguments = connection_class(url, awaiting=False)
        self._free: deque[Any] = deque()

    def exchange(self, commands: Sequence[Words], rescue: Callable[[Replies], None] | None = None) -> Replies:
        """Sends commands and reads their replies. Raises a ``Fault`` when there is no whole answer.

        ``rescue`` is given the replies when the reading was interrupted (Ctrl-C): what they hand out is not lost.
        """
        connection = self._take()
        replies: Replies = []
        try:
            connection.send_packed_command(list(map(pack, commands)), check_health=False)
            for _ in commands:
                replies.append(_read(connection))
        except Exception as error:
            self._drop(connection)
            raise meaning(error) from error
        except BaseException:
            if rescue is not None:
                _read_on(connection, len(commands), replies)
                self._drop(connection)
                rescue(replies)
            else:
                self._drop(connection)
            raise
        self._free.append(connection)
        return replies

    def connect(self, *, answer_s: float | None = ANSWER_S) -> Any:
        """A connection of one's own."""
        try:
            connection = self._class(**{**self._arguments, "socket_timeout": answer_s})
            connection.connect()
        except Exception as error:
            raise meaning(error) from error
        return connection

    def close(self) -> None:
        while self._free:
            self._free.pop().disconnect()

    def forget(self) -> None:
        """After a fork: the connections are the parent's; leave them alone."""
        self._free = deque()

    def _take(self) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            return self.connect()

    def _drop(self, connection: Any) -> None:
        connection.disconnect()
        self.close()


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disconnect_on_error=False)
    except driver.ResponseError as error:
        return meaning(error)


def _read_on(connection: Any, expected: int, replies: Replies) -> None:
    try:
        while len(replies) < expected and connection.can_read(RESCUE_S):
            replies.append(_read(connection))
    except driver.RedisError:
        return


class WaitingLine:
    """The one connection that blocks, for all who wait: BLPOP over tokens, begun, awaited, ended."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Any = None
        self._id = b""
        self.keys: tuple[bytes, ...] = ()

    def begin(self, keys: tuple[bytes, ...]) -> None:
        """Waits for a token in one of the keys. Raises a ``Fault``."""
        try:
            if self._connection is None:
                self._connection = self._server.connect(answer_s=None)
                self._connection.send_command("CLIENT", "ID", check_health=False)
                self._id = b"%d" % self._connection.read_response()
            self._connection.send_packed_command([pack((b"BLPOP", *keys, b"%d" % WAIT_S))], check_health=False)
        except Exception as error:
            self.drop()
            raise error if isinstance(error, Fault) else meaning(error) from error
        self.keys = keys

    def wait(self, seconds: float) -> tuple[bool, bytes | None]:
        """Whether the wait has ended within the time, and the key whose token came. Raises a ``Fault``."""
        try:
            if not self._connection.can_read(max(seconds, 0)):
                return False, None
            reply = self._connection.read_response(disconnect_on_error=False)
        except driver.ResponseError as error:
            self.keys = ()
            raise meaning(error) from error
        except Exception as error:
            self.drop()
            raise meaning(error) from error
        self.keys = ()
        return True, reply[0] if reply else None

    def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        while self.keys:
            try:
                self.poke()
            except Fault:
                self.drop()
                raise
            over, key = self.wait(0.05)
            if over:
                return key
        return None

    def poke(self) -> None:
        """Wakes whoever waits, from any thread. Raises a ``Fault``."""
        self._server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])

    def drop(self) -> None:
        connection, self._connection, self.keys = self._connection, None, ()
        if connection is not None:
            connection.disconnect()
