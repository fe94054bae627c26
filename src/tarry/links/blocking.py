"""Reaching one server, blocking: a few connections for requests; one more for waiting is in tarry.links.waiting.

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

from tarry.core.requests import Transaction
from tarry.links.address import connection_class
from tarry.links.faults import TROUBLES, Fault, Later, Lost, Replica, meaning

T = TypeVar("T")
Words = tuple[bytes, ...]
Replies = list[Any]
"""One for each command: a value, or a ``Fault``."""

Halves = Generator[Replies, float | None, None]
READ_ONLY = (b"READONLY",)
RESCUE_S = 1.0
ARRIVED_S = 0.05
"""To read what has come already, when the time of an answer is up."""


def pack(words: Words) -> bytes:
    """One command as it goes over the wire."""
    packed: bytes = _pack(words)  # type: ignore[arg-type]  # its stub wants a tuple of one
    return packed


class Drops(Protocol):
    """A server whose connections can all be dropped."""

    url: str

    def drop_all(self) -> None:
        """From any thread: whoever waits for an answer is told that there will be none."""


class Guard(Protocol):
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
        if isinstance(reply, (Lost, Later)):
            raise reply
    if (isinstance(role, list) and role[0] != b"master") or (isinstance(info, bytes) and b"role:master" not in info):
        raise Replica("it is a replica; its master is awaited")


class Server:
    """One server, by its URL."""

    def __init__(
        self,
        url: str,
        max_answer_s: float = math.inf,
        *,
        of_a_replica: bool = False,
        named: bool = True,
        guard: Guard | None = None,
    ) -> None:
        """``max_answer_s``: no answer is waited for any longer. ``of_a_replica``: of a Cluster, which answers there only who says
        that he only reads. ``named``: it is told whose connections they are. ``guard`` is asked about each connection."""
        self.forbidden: frozenset[bytes] = frozenset()
        """Commands that the user of the URL may not run, as far as anybody told."""
        self.confirms: set[bytes] = set()
        """Commands by which it can confirm what it was given."""
        self._class, self._arguments, self.answer_s = connection_class(
            url, awaiting=False, max_answer_s=max_answer_s, named=named
        )
        self._only_reads = of_a_replica
        self._free: deque[Any] = deque()
        self._all: Alive[Any] = Alive()
        self._guard = guard
        self.url = url
        if guard is not None:
            guard.watch(self)

    @cached_property
    def unhurried(self) -> Server:
        """The same for what blocks its connection for a while: with all the time that an answer may take."""
        return Server(self.url, guard=self._guard)

    def exchange(
        self,
        commands: Sequence[Words],
        rescue: Callable[[Replies], None] | None = None,
        within_s: float | None = None,
    ) -> Replies:
        """Sends commands and reads their replies. Raises a ``Fault`` when there is no answer at all; where an answer breaks
        off, what had come is answered and the rest is ``Lost``.

        ``rescue`` is given the replies when the reading was interrupted (Ctrl-C): what they hand out is not lost.
        ``within_s``, if it is less than an answer may take, is enough for all of it; on a connection of its own.
        """
        halves = self.halves(commands, rescue, within_s)
        try:
            next(halves)
            return next(halves)
        finally:
            halves.close()

    def halves(
        self,
        commands: Sequence[Words],
        rescue: Callable[[Replies], None] | None = None,
        within_s: float | None = None,
    ) -> Halves:
        """An exchange in two steps, so that several servers work at the same time: the first sends, the second reads, and may
        be told how long the first reply may keep it waiting."""
        hurried = within_s is not None and within_s < self.answer_s
        connection = self.connect(within_s) if hurried else self._take()
        replies: Replies = []
        sent = False
        try:
            connection.send_packed_command([b"".join(map(pack, commands))], check_health=False)  # the driver sends each
            sent = True
            left_s = yield []
            if left_s is not None and not connection.can_read(left_s):
                raise Lost(f"no answer for {self.answer_s:g} s")
            for _ in commands:
                replies.append(_read(connection))  # those that came are kept
        except TROUBLES as error:
            self._drop(connection)
            if not replies:
                raise meaning(error) from error
            replies += [meaning(error)] * (len(commands) - len(replies))
        except BaseException:  # Ctrl-C, or whatever a signal's handler raised: the caller's own, not the server's
            if sent and rescue is not None:
                _read_on(connection, len(commands), replies)
            connection.disconnect()
            if replies and rescue is not None:
                rescue(replies)
            raise
        else:
            self._leave(connection, over=hurried)
        yield replies

    def transact(self, transaction: Transaction[T], within_s: float | None = None) -> T:
        """Performs a transaction, again while what it watches changes. Raises a ``Fault``. ``within_s``: as for an exchange."""
        hurried = within_s is not None and within_s < self.answer_s
        connection = self.connect(within_s) if hurried else self._take()
        try:
            while True:
                words = transaction.decide(_talk(connection, transaction.begin))
                answers = _talk(connection, closing(words))[-1]
                if answers is not None:
                    break
        except BaseException as error:
            connection.disconnect()  # and it watches nothing any more
            if isinstance(error, TROUBLES):
                raise meaning(error) from error
            raise
        self._leave(connection, over=hurried)
        return transaction.decode(answers if words else [])

    def connect(self, within_s: float | None = None, *, told: bool = False) -> Any:
        """A connection of one's own; ``within_s`` is how long it and each of its answers may take; ``told``: on which the
        server says something by itself, as lists."""
        other: dict[str, Any] = {"protocol": 3} if told else {}
        if within_s is not None:
            other |= {"socket_timeout": within_s, "socket_connect_timeout": within_s}
        connection = self._class(**self._arguments | other)
        try:
            if self._guard is not None:
                self._guard.confirm(self.url, self.answer_s if within_s is None else within_s)
            connection.connect()
            if self._guard is not None:
                self._all.add(connection)
                judge_role(_asked(connection, ROLE))
                self._guard.keep(self.url)
            if self._only_reads:
                _talk(connection, [READ_ONLY])
            if told:
                connection._parser.set_invalidation_push_handler(_as_it_is)
        except (*TROUBLES, UnicodeError) as error:  # UnicodeError: a host that cannot be one
            connection.disconnect()
            raise meaning(error, database=self._arguments.get("db", 0)) from error
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
                self._free.pop().disconnect()
        if "unhurried" in vars(self):
            self.unhurried.close()

    def forget(self) -> None:
        """After a fork: the connections are the parent's; leave them alone."""
        self._free, self._all = deque(), Alive()
        vars(self).pop("unhurried", None)

    def _take(self) -> Any:
        try:
            return self._free.pop()
        except IndexError:
            return self.connect()

    def _leave(self, connection: Any, *, over: bool) -> None:
        """For the next who asks, or for nobody."""
        if over:
            connection.disconnect()
        else:
            self._free.append(connection)

    def _drop(self, connection: Any) -> None:
        connection.disconnect()
        self.close()


def closing(words: Sequence[Words]) -> Sequence[Words]:
    return ((b"MULTI",), *words, (b"EXEC",)) if words else ((b"UNWATCH",),)


def _talk(connection: Any, commands: Sequence[Words]) -> Replies:
    """Raises whatever is no answer, and an answer that is an error."""
    return sound(_asked(connection, commands))


def _asked(connection: Any, commands: Sequence[Words]) -> Replies:
    connection.send_packed_command(list(map(pack, commands)), check_health=False)
    return [_read(connection) for _ in commands]


def sound(replies: Replies) -> Replies:
    """The replies, if none of them is an error."""
    for reply in replies:
        if isinstance(reply, Fault):
            raise reply
    return replies


def _as_it_is(message: Any) -> Any:
    return message


def read_any(connection: Any) -> Any:
    """The next reply or message: a value, or a ``Fault``."""
    try:
        return connection.read_response(disconnect_on_error=False, push_request=True)
    except driver.ResponseError as error:
        return meaning(error)


def _read(connection: Any) -> Any:
    try:
        return connection.read_response(disconnect_on_error=False)
    except driver.ResponseError as error:
        return meaning(error)


def _read_on(connection: Any, expected: int, replies: Replies) -> None:
    try:
        while len(replies) < expected and connection.can_read(RESCUE_S):
            replies.append(_read(connection))
    except TROUBLES:
        return
