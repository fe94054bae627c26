"""Connections to one server, blocking: a pool for requests. The one that blocks in BLPOP is in tarry.connections.blocking_blpop.

Any number of threads may exchange at once; each takes an idle connection, or a new one. When a connection fails, all idle ones
are closed: after a restart of the server they are dead too.
"""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import redis.exceptions as driver

from tarry.connections.address import connection_class
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, fault_of, with_tls_reason
from tarry.connections.fitness import ROLE, LiveObjects, MasterCheck, judge_role
from tarry.connections.resp import (
    DRAIN_TIMEOUT_S,
    NOT_ENOUGH_DATA,
    READ_ONLY,
    READ_SIZE,
    Args,
    Outgoing,
    Replies,
    pack_all,
    raise_faults,
    reply_of,
    reply_reader,
    transaction_end,
)
from tarry.core.requests import Transaction

T = TypeVar("T")
Rescue = Callable[[Replies], None]
"""A function that gets the replies when reading them is interrupted (Ctrl-C), so that the jobs in them are not lost."""


class Server:
    """One server, by its URL."""

    def __init__(
        self,
        url: str,
        max_answer_s: float = math.inf,
        *,
        replica_of_cluster: bool = False,
        with_name: bool = True,
        master_check: MasterCheck | None = None,
    ) -> None:
        """``max_answer_s``: the longest time to wait for an answer. ``replica_of_cluster``: it answers reads only after READONLY.
        ``with_name``: the connections are named ``tarry``. ``master_check`` confirms each new connection."""
        self.forbidden: frozenset[bytes] = frozenset()
        """Commands that the URL's user may not run, as far as known."""
        self.confirms: set[bytes] = set()
        """Commands that confirm a write and that the server accepts."""
        self._class, self._arguments, self.answer_timeout_s = connection_class(
            url, awaited=False, max_answer_s=max_answer_s, with_name=with_name
        )
        self._read_only = replica_of_cluster
        self._idle: deque[RequestConnection] = deque()
        self._all: LiveObjects[Any] = LiveObjects()
        self._master_check = master_check
        self.url = url
        if master_check is not None:
            master_check.register(self)

    @cached_property
    def without_timeout(self) -> Server:
        """The same server, without ``max_answer_s``: for commands that block for a while."""
        return Server(self.url, master_check=self._master_check)

    def exchange(
        self, commands: Sequence[Outgoing], on_interrupt: Rescue | None = None, within_s: float | None = None
    ) -> Replies:
        """Sends commands and returns their replies. Raises a ``Fault`` if no reply came; if only some came, the others are
        ``ConnectionLost``.

        ``within_s``, if it is shorter than the normal timeout, is the timeout of all of it, on a connection of its own.
        """
        return self.read(self.send(commands, within_s), len(commands), on_interrupt)

    def send(self, commands: Sequence[Outgoing], within_s: float | None = None) -> RequestConnection:
        """The first half of an exchange, so that several servers work at the same time. Raises a ``Fault``."""
        connection = self._take(within_s)
        try:
            connection.send(commands)
        except CONNECTION_ERRORS as error:
            self._discard(connection)
            raise fault_of(error) from error
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def read(
        self,
        connection: RequestConnection,
        expected: int,
        on_interrupt: Rescue | None = None,
        left_s: float | None = None,
    ) -> Replies:
        """The second half: the replies, with ``left_s`` as the timeout of the first. Raises a ``Fault`` if there is none."""
        replies: Replies = []
        try:
            if left_s is not None and not connection.can_read(left_s):
                raise ConnectionLost(f"no answer for {self.answer_timeout_s:g} s")
            for _ in range(expected):
                replies.append(connection.read())  # those that came are kept
        except CONNECTION_ERRORS as error:
            self._discard(connection)
            if not replies:
                raise fault_of(error) from error
            replies += [fault_of(error)] * (expected - len(replies))
            return replies
        except BaseException:  # Ctrl-C, or an exception of a signal handler: not the server's
            if on_interrupt is not None:
                _drain(connection, expected, replies)
            connection.disconnect()
            if replies and on_interrupt is not None:
                on_interrupt(replies)
            raise
        self._put_back(connection)
        return replies

    def transact(self, transaction: Transaction[T], within_s: float | None = None) -> T:
        """Performs a transaction, again if a watched key changes. Raises a ``Fault``. ``within_s``: as for an exchange."""
        connection = self._take(within_s)
        try:
            while True:
                commands = transaction.decide(_request(connection, transaction.begin))
                replies = _request(connection, transaction_end(commands))[-1]
                if replies is not None:
                    break
        except BaseException as error:
            connection.disconnect()  # which ends a WATCH too
            if isinstance(error, CONNECTION_ERRORS):
                raise fault_of(error) from error
            raise
        self._put_back(connection)
        return transaction.decode(replies if commands else [])

    def connect(self, within_s: float | None = None, *, push_messages: bool = False) -> Any:
        """A new connection; ``within_s`` is the timeout for connecting and for each answer; with ``push_messages``, the server may
        send messages on it, which are read as lists."""
        changed: dict[str, Any] = {"protocol": 3} if push_messages else {}
        if within_s is not None:
            changed |= {"socket_timeout": within_s, "socket_connect_timeout": within_s}
        connection = self._class(**self._arguments | changed)
        try:
            if self._master_check is not None:
                self._master_check.confirm_master(self.url, self.answer_timeout_s if within_s is None else within_s)
            connection.connect()
            if self._master_check is not None:
                self._all.add(connection)
                judge_role(_asked(RequestConnection(connection), ROLE))
                self._master_check.refuse_if_replaced(self.url)
            if self._read_only:
                _request(RequestConnection(connection), [READ_ONLY])
            if push_messages:
                connection._parser.set_invalidation_push_handler(_unchanged)  # noqa: SLF001  # nor for that
        except (*CONNECTION_ERRORS, UnicodeError) as error:  # UnicodeError: not a valid host name
            connection.disconnect()
            if self.url.startswith("rediss"):
                from tarry.connections import tls  # no other connection needs it

                tls.close_socket(error.__context__)
            fault = fault_of(error, database=self._arguments.get("db", 0))
            raise with_tls_reason(fault, self.url, self._arguments) from error
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def drop_all(self) -> None:
        """Drops all connections, from any thread; requests without a reply fail."""
        for connection in self._all.all():
            open_socket = socket_of(connection)
            if open_socket is not None:
                with suppress(OSError):
                    socket.socket.shutdown(open_socket, socket.SHUT_RDWR)  # not SSLSocket's, which is not thread-safe
        self.close()

    def close(self) -> None:
        with suppress(IndexError):  # other threads take from it too
            while True:
                self._idle.pop().disconnect()
        if "without_timeout" in vars(self):
            self.without_timeout.close()

    def forget(self) -> None:
        """In a forked process: the connections are the parent's, and are neither used nor closed."""
        self._idle, self._all = deque(), LiveObjects()
        vars(self).pop("without_timeout", None)

    def _take(self, within_s: float | None = None) -> RequestConnection:
        """A connection for a request: an idle one, or a new one. With a timeout of its own it is used once."""
        if within_s is not None and within_s < self.answer_timeout_s:
            return RequestConnection(self.connect(within_s), used_once=True)
        try:
            return self._idle.pop()
        except IndexError:
            return RequestConnection(self.connect())

    def _put_back(self, connection: RequestConnection) -> None:
        """Makes a connection available again, or closes it: a reply too many would be taken for that of the next request."""
        if connection.used_once or connection.has_data():
            connection.disconnect()
        else:
            self._idle.append(connection)

    def _discard(self, connection: RequestConnection) -> None:
        """Closes a connection that failed, and all idle ones."""
        connection.disconnect()
        self.close()


class RequestConnection:
    """A connection that the driver has opened, for requests."""

    __slots__ = ("_driver", "_reader", "_receive", "_send", "_socket", "has_data", "used_once")

    def __init__(self, connection: Any, *, used_once: bool = False) -> None:
        self._driver = connection
        self.used_once = used_once
        self._reader = reply_reader(connection)
        self.has_data = self._reader.has_data
        self._socket = socket_of(connection)
        self._send = self._socket.sendall
        self._receive = self._socket.recv

    def send(self, commands: Sequence[Outgoing]) -> None:
        """Sends commands. Raises one of ``CONNECTION_ERRORS``."""
        self._send(pack_all(commands))

    def read(self) -> Any:
        """The next reply: a value or a ``Fault``. Raises one of ``CONNECTION_ERRORS``."""
        reader = self._reader
        reply = reader.gets()
        while reply is NOT_ENOUGH_DATA:
            received = self._receive(READ_SIZE)
            if not received:
                raise ConnectionLost("Connection closed by server.")
            reader.feed(received)
            reply = reader.gets()
        return reply_of(reply)

    def can_read(self, seconds: float) -> bool:
        """Whether something comes within a time. The driver's ``can_read`` would keep it, before redis-py 8."""
        if self.has_data():
            return True
        timeout = self._socket.gettimeout()
        self._socket.settimeout(seconds)
        try:
            received = self._receive(READ_SIZE)
        except TimeoutError:
            return False
        finally:
            self._socket.settimeout(timeout)
        self._reader.feed(received)
        return True

    def disconnect(self) -> None:
        self._driver.disconnect()


def _request(connection: RequestConnection, commands: Sequence[Args]) -> Replies:
    """Sends commands and returns their replies. Raises a ``Fault``, also for a reply that is an error."""
    return raise_faults(_asked(connection, commands))


def _asked(connection: RequestConnection, commands: Sequence[Args]) -> Replies:
    connection.send(commands)
    return [connection.read() for _ in commands]


def _unchanged(message: Any) -> Any:
    return message


def socket_of(connection: Any) -> Any:
    """The socket of a connection of the driver, to wait for; ``None`` when it is closed."""
    return connection._sock  # noqa: SLF001  # redis-py has no public name for it


def read_push_or_reply(connection: Any) -> Any:
    """The next reply or message: a value, or a ``Fault``."""
    try:
        return connection.read_response(disconnect_on_error=False, push_request=True)
    except driver.ResponseError as error:
        return fault_of(error)


def _drain(connection: RequestConnection, expected: int, replies: Replies) -> None:
    try:
        while len(replies) < expected and connection.can_read(DRAIN_TIMEOUT_S):
            replies.append(connection.read())
    except CONNECTION_ERRORS:
        return
