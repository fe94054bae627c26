"""Reaching one server, blocking: a few connections for requests; one more for waiting is in tarry.connections.blocking_blpop.

Any number of threads may exchange at once; each takes a connection that is free, or a new one. A connection that failed
takes all the free ones with it: after a restart they are as dead as it is.
"""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

import redis.exceptions as driver
from hiredis import pack_command as _pack

from tarry.connections.address import connection_class
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, Fault, IsReplica, TryLater, fault_of
from tarry.core.requests import Transaction

T = TypeVar("T")
Args = tuple[bytes, ...]
Replies = list[Any]
"""One for each command: a value, or a ``Fault``."""

ExchangeHalves = Generator[Replies, float | None, None]
READ_ONLY = (b"READONLY",)
DRAIN_TIMEOUT_S = 1.0
BUFFERED_TIMEOUT_S = 0.05
"""To read what has come already, when the time of an answer is up."""


def pack(args: Args) -> bytes:
    """One command as it goes over the wire."""
    packed: bytes = _pack(args)  # type: ignore[arg-type]  # its stub wants a tuple of one
    return packed


class Drops(Protocol):
    """A server whose connections can all be dropped."""

    url: str

    def drop_all(self) -> None:
        """From any thread: whoever waits for an answer is told that there will be none."""


class MasterCheck(Protocol):
    """Knows whether a server is the master. Both raise a ``Fault`` if it is not."""

    def watch(self, server: Drops) -> None: ...

    def confirm(self, url: str, within_s: float) -> None:
        """Before a connection is made; blocks."""

    def keep(self, url: str) -> None:
        """When it is made."""


class Alive(Generic[T]):
    """Those that are still there, of all that were added. Thread-safe, also where the collector takes one away."""

    def __init__(self) -> None:
        self._refs: dict[int, ref[T]] = {}

    def add(self, one: T) -> None:
        refs, key = self._refs, id(one)
        refs[key] = ref(one, lambda _: refs.pop(key, None))

    def all(self) -> list[T]:
        return [one for each in self._refs.copy().values() if (one := each()) is not None]


ROLE = ((b"ROLE",), (b"INFO", b"replication"))
"""The latter for users who may not ask the first."""


def judge_role(replies: Replies) -> None:
    """Raises a ``Fault`` unless the server calls itself a master; who may not ask takes it as it is."""
    role, info = replies
    for reply in replies:
        if isinstance(reply, (ConnectionLost, TryLater)):
            raise reply
    if (isinstance(role, list) and role[0] != b"master") or (isinstance(info, bytes) and b"role:master" not in info):
        raise IsReplica("it is a replica; its master is awaited")


class Server:
    """One server, by its URL."""

    def __init__(
        self,
        url: str,
        max_answer_s: float = math.inf,
        *,
        replica_of_cluster: bool = False,
        with_name: bool = True,
        guard: MasterCheck | None = None,
    ) -> None:
        """``max_answer_s``: no answer is waited for any longer. ``of_a_replica``: of a Cluster, which answers there only who says
        that he only reads. ``named``: it is told whose connections they are. ``guard`` is asked about each connection."""
        self.forbidden: frozenset[bytes] = frozenset()
        """Commands that the user of the URL may not run, as far as anybody told."""
        self.confirms: set[bytes] = set()
        """Commands by which it can confirm what it was given."""
        self._class, self._arguments, self.answer_timeout_s = connection_class(
            url, awaited=False, max_answer_s=max_answer_s, with_name=with_name
        )
        self._read_only = replica_of_cluster
        self._idle: deque[Any] = deque()
        self._all: Alive[Any] = Alive()
        self._guard = guard
        self.url = url
        if guard is not None:
            guard.watch(self)

    @cached_property
    def without_timeout(self) -> Server:
        """The same for what blocks its connection for a while: with all the time that an answer may take."""
        return Server(self.url, guard=self._guard)

    def exchange(
        self,
        commands: Sequence[Args],
        on_interrupt: Callable[[Replies], None] | None = None,
        within_s: float | None = None,
    ) -> Replies:
        """Sends commands and reads their replies. Raises a ``Fault`` when there is no answer at all; where an answer breaks
        off, what had come is answered and the rest is ``ConnectionLost``.

        ``rescue`` is given the replies when the reading was interrupted (Ctrl-C): what they hand out is not lost.
        ``within_s``, if it is less than an answer may take, is enough for all of it; on a connection of its own.
        """
        halves = self.exchange_halves(commands, on_interrupt, within_s)
        try:
            next(halves)
            return next(halves)
        finally:
            halves.close()

    def exchange_halves(
        self,
        commands: Sequence[Args],
        on_interrupt: Callable[[Replies], None] | None = None,
        within_s: float | None = None,
    ) -> ExchangeHalves:
        """An exchange in two steps, so that several servers work at the same time: the first sends, the second reads, and may
        be told how long the first reply may keep it waiting."""
        own_connection = within_s is not None and within_s < self.answer_timeout_s
        connection = self.connect(within_s) if own_connection else self._take()
        replies: Replies = []
        sent = False
        try:
            connection.send_packed_command([b"".join(map(pack, commands))], check_health=False)  # the driver sends each
            sent = True
            left_s = yield []
            if left_s is not None and not connection.can_read(left_s):
                raise ConnectionLost(f"no answer for {self.answer_timeout_s:g} s")
            for _ in commands:
                replies.append(_read(connection))  # those that came are kept
        except CONNECTION_ERRORS as error:
            self._discard(connection)
            if not replies:
                raise fault_of(error) from error
            replies += [fault_of(error)] * (len(commands) - len(replies))
        except BaseException:  # Ctrl-C, or whatever a signal's handler raised: the caller's own, not the server's
            if sent and on_interrupt is not None:
                _drain(connection, len(commands), replies)
            connection.disconnect()
            if replies and on_interrupt is not None:
                on_interrupt(replies)
            raise
        else:
            self._put_back(connection, discard=own_connection)
        yield replies

    def transact(self, transaction: Transaction[T], within_s: float | None = None) -> T:
        """Performs a transaction, again while what it watches changes. Raises a ``Fault``. ``within_s``: as for an exchange."""
        own_connection = within_s is not None and within_s < self.answer_timeout_s
        connection = self.connect(within_s) if own_connection else self._take()
        try:
            while True:
                words = transaction.decide(_request(connection, transaction.begin))
                answers = _request(connection, transaction_end(words))[-1]
                if answers is not None:
                    break
        except BaseException as error:
            connection.disconnect()  # and it watches nothing any more
            if isinstance(error, CONNECTION_ERRORS):
                raise fault_of(error) from error
            raise
        self._put_back(connection, discard=own_connection)
        return transaction.decode(answers if words else [])

    def connect(self, within_s: float | None = None, *, push_messages: bool = False) -> Any:
        """A connection of one's own; ``within_s`` is how long it and each of its answers may take; ``told``: on which the
        server says something by itself, as lists."""
        other: dict[str, Any] = {"protocol": 3} if push_messages else {}
        if within_s is not None:
            other |= {"socket_timeout": within_s, "socket_connect_timeout": within_s}
        connection = self._class(**self._arguments | other)
        try:
            if self._guard is not None:
                self._guard.confirm(self.url, self.answer_timeout_s if within_s is None else within_s)
            connection.connect()
            if self._guard is not None:
                self._all.add(connection)
                judge_role(_asked(connection, ROLE))
                self._guard.keep(self.url)
            if self._read_only:
                _request(connection, [READ_ONLY])
            if push_messages:
                connection._parser.set_invalidation_push_handler(_unchanged)
        except (*CONNECTION_ERRORS, UnicodeError) as error:  # UnicodeError: a host that cannot be one
            connection.disconnect()
            raise fault_of(error, database=self._arguments.get("db", 0)) from error
        except BaseException:
            connection.disconnect()
            raise
        return connection

    def drop_all(self) -> None:
        """From any thread: whoever waits for an answer is told that there will be none."""
        for connection in self._all.all():
            its = connection._sock
            if its is not None:
                with suppress(OSError):
                    socket.socket.shutdown(its, socket.SHUT_RDWR)  # not TLS's own, which others use at the moment
        self.close()

    def close(self) -> None:
        with suppress(IndexError):  # other threads take from it too
            while True:
                self._idle.pop().disconnect()
        if "without_timeout" in vars(self):
            self.without_timeout.close()

    def forget(self) -> None:
        """After a fork: the connections are the parent's; leave them alone."""
        self._idle, self._all = deque(), Alive()
        vars(self).pop("without_timeout", None)

    def _take(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self.connect()

    def _put_back(self, connection: Any, *, discard: bool) -> None:
        """For the next who asks, or for nobody."""
        if discard:
            connection.disconnect()
        else:
            self._idle.append(connection)

    def _discard(self, connection: Any) -> None:
        connection.disconnect()
        self.close()


def transaction_end(commands: Sequence[Args]) -> Sequence[Args]:
    return ((b"MULTI",), *commands, (b"EXEC",)) if commands else ((b"UNWATCH",),)


def _request(connection: Any, commands: Sequence[Args]) -> Replies:
    """Raises whatever is no answer, and an answer that is an error."""
    return raise_faults(_asked(connection, commands))


def _asked(connection: Any, commands: Sequence[Args]) -> Replies:
    connection.send_packed_command(list(map(pack, commands)), check_health=False)
    return [_read(connection) for _ in commands]


def raise_faults(replies: Replies) -> Replies:
    """The replies, if none of them is an error."""
    for reply in replies:
        if isinstance(reply, Fault):
            raise reply
    return replies


def _unchanged(message: Any) -> Any:
    return message


def read_push_or_reply(connection: Any) -> Any:
    """The next reply or message: a value, or a ``Fault``."""
    try:
        return connection.read_response(disconnect_on_error=False, push_request=True)
    except driver.ResponseError as error:
        return fault_of(error)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disconnect_on_error=False)
    except driver.ResponseError as error:
        return fault_of(error)


def _drain(connection: Any, expected: int, replies: Replies) -> None:
    try:
        while len(replies) < expected and connection.can_read(DRAIN_TIMEOUT_S):
            replies.append(_read(connection))
    except CONNECTION_ERRORS:
        return
