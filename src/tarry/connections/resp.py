"""RESP, the server's protocol, as both clients speak it: commands are packed, and what comes back is a value or a ``Fault``.

No I/O: tarry.connections.blocking and tarry.connections.awaited send and receive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import redis.exceptions as driver
from hiredis import PushNotification, Reader

from tarry.connections.faults import ConnectionLost, Fault, fault_of
from tarry.core.requests import Asking

T = TypeVar("T")
Args = tuple[bytes, ...]
Outgoing = Args | bytes
"""A command, or one that is packed already."""
READ_SIZE = 65536
NOT_ENOUGH_DATA = object()
_VALUES = frozenset((int, bytes, type(None), list))
_SHORT = 1024
_SHORT_HEADS = [b"\r\n$%d\r\n" % size for size in range(_SHORT)]
"""The heads of words with fewer than ``_SHORT`` bytes, made in advance."""
Replies = list[Any]
"""One for each command: a value or a ``Fault``."""

READ_ONLY = (b"READONLY",)
WAIT_S = 60
"""The server ends a BLPOP after this time; then it is sent again."""
DRAIN_TIMEOUT_S = 1.0
BUFFERED_TIMEOUT_S = 0.05
"""Seconds to read replies that are buffered already, after a timeout."""


def pack(args: Sequence[bytes]) -> bytes:
    """One command."""
    parts = [b"*%d" % len(args)]
    append_words(parts, args)
    return b"".join(parts)


def append_words(parts: list[bytes], words: Sequence[bytes]) -> None:
    """Appends words of a command, and the end of its last line."""
    for word in words:
        size = len(word)
        parts += (_SHORT_HEADS[size] if size < _SHORT else b"\r\n$%d\r\n" % size, word)
    parts.append(b"\r\n")


def pack_all(commands: Sequence[Outgoing]) -> bytes:
    """Commands, for one send."""
    if len(commands) == 1 and isinstance(commands[0], bytes):
        return commands[0]
    return b"".join([command if isinstance(command, bytes) else pack(command) for command in commands])


def reply_reader(connection: Any) -> Reader:
    """A reader for what comes on a connection that the driver has opened. Errors are the driver's."""
    return Reader(
        protocolError=driver.InvalidResponse,
        replyError=connection._parser.parse_error,  # noqa: SLF001  # redis-py has no public name for it
        notEnoughData=NOT_ENOUGH_DATA,
    )


def reply_of(parsed: Any) -> Any:
    """A reply as a value, or as a ``Fault``. Raises the errors that end a connection, such as LOADING."""
    first = parsed[0] if type(parsed) is list and parsed else parsed
    if type(first) in _VALUES:
        return parsed
    if isinstance(parsed, PushNotification):
        raise ConnectionLost("the server sent a message that is no reply")
    if not isinstance(first, driver.RedisError):
        return parsed
    if not isinstance(first, driver.ResponseError):
        raise first
    return fault_of(first) if first is parsed else parsed


def raise_faults(replies: Replies) -> Replies:
    """The replies, if none of them is an error."""
    for reply in replies:
        if isinstance(reply, Fault):
            raise reply
    return replies


class AnyReplies(tuple[Args, ...]):
    """Commands of which an error is a reply, too: steps (``Asking``) are sent the replies as they are. For others an error is raised."""

    __slots__ = ()


class _Server(Protocol):
    def exchange(self, commands: Sequence[Args]) -> Any: ...


def _checked(commands: Sequence[Args], replies: Any) -> Any:
    return replies if isinstance(commands, AnyReplies) else raise_faults(replies)


def ask(server: _Server, steps: Asking[T]) -> T:
    """Takes steps on a server of a blocking client. Raises a ``Fault``."""
    replies: Any = None
    while True:
        try:
            commands = steps.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        replies = _checked(commands, server.exchange(commands))


async def ask_awaited(server: _Server, steps: Asking[T]) -> T:
    """The same on a server of an awaited client."""
    replies: Any = None
    while True:
        try:
            commands = steps.send(replies)
        except StopIteration as end:
            result: T = end.value
            return result
        replies = _checked(commands, await server.exchange(commands))


def transaction_end(commands: Sequence[Args]) -> Sequence[Args]:
    return ((b"MULTI",), *commands, (b"EXEC",)) if commands else ((b"UNWATCH",),)
