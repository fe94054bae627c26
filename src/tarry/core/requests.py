"""Requests and flows: what a verb wants from the server, as values.

    ScriptCall  one script, one round trip: keys, arguments, items, and how to decode the reply
    Command     the same for a plain command
    Batch       several of the two that do not depend on each other: one round trip for all
    flow        a generator of the three, for anything longer than one round trip

A verb returns one of them; a client's runner performs it, blocking or awaited. The runner's ``await`` is the only difference.

    def move(a, b):                            # a flow
        found = yield from ask(take(a))        # ask: perform a call, typed
        yield from ask(put(b, found))
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

from msgspec import Struct

from tarry.core.scripts import Script, learn_keys
from tarry.errors import BadInput, JobExists, ServerUnfit, TarryError, TopicFull, Unavailable, Unconfirmed

T = TypeVar("T")
Reply = Any
"""The driver's form of a reply: ``int``, ``bytes``, ``None`` or a list of them."""

MOST_ITEMS, MOST_BYTES = 1000, 1_000_000
"""Of one script."""
FIRST_TIME, REPLAY = b"0", b"1"
"""The last argument of a script that must tell a repeated call from a first one: ``is_replay``."""


class AnyRequest(Struct, Generic[T], eq=False):
    """A request to a server or to a service. Its reply is decoded as ``T``."""


class SmallCall(Struct, eq=False):
    """A script that gets these keys, a lease in place of the clock (lua/lib/lease.lua), and the items of a call."""

    script: Script
    keys: tuple[bytes, ...]
    lease: bytes
    head: tuple[int, bytes] | None = None
    """Its packed words before the items, and the number of all: all calls with one lease share them. The client that sends them first keeps them."""


@final
class ScriptCall(AnyRequest[T], eq=False):
    """One script, one round trip. ``items`` are flat, ``script.stride`` values each.

    Calls with items and the same script, keys and ``args`` may be sent as one. The reply then has ``reply_header`` values for all,
    and one answer for each item. ``never_merged`` forbids it: all items succeed, or none.

    Every call is safe to repeat: its script detects a replay, or nothing changes, or a job that a lost answer handed out comes
    back after its TTR. ``undo`` makes the call that puts an unwanted answer back. ``confirmation`` is sent right after the call,
    on the same connection, and checks where the write has arrived. ``on_wrong_type`` makes the flow to perform instead when the
    server answers WRONGTYPE; nothing was done then.

    ``small`` is sent instead, with the items of this call, when the call is alone: neither
    merged nor repeated. If it cannot judge the call, it does nothing and answers 0; then the call itself is sent.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    decode: Callable[[Reply], T]
    items: Sequence[bytes] = ()
    reply_header: int = 0
    never_merged: bool = False
    undo: Callable[[T], ScriptCall[Any] | None] | None = None
    confirmation: Confirmation | None = None
    on_wrong_type: Callable[[ScriptCall[T], WrongType], Flow[T]] | None = None
    small: SmallCall | None = None

    def as_large(self) -> ScriptCall[T]:
        """The same call without its small script."""
        large = copy(self)
        large.small = None
        return large

    def with_all_keys(self) -> ScriptCall[T]:
        """The same call with the keys of jobs with a key, which its topic has."""
        large = self.as_large()
        large.keys = self.script.keys_for(learn_keys(self.keys[0]))
        return large

    def as_replay(self) -> ScriptCall[T]:
        """The same call, marked as one that may have been done already."""
        if not self.script.detects_replays:
            return self
        replay = self.as_large()
        replay.args = (*self.args[:-1], REPLAY)
        return replay

    def __repr__(self) -> str:
        return f"ScriptCall({self.script.name}, {len(self.items)} values)"


class WrongType(ServerUnfit):
    """A key has another type than expected: another program uses the name, or the topic has been given partitions."""


class CannotConfirm(ServerUnfit):
    """A job was not sent, because the server cannot confirm it. ``reason``: the server's message, and what is required."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Nothing was added: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A command that waits until the connection's writes are on replicas or on disk, and the check of its reply.

    ``probe`` is the same command before anything is written, which returns at once: if the server refuses it, nothing is sent.
    ``requirement`` tells the user what the server needs.
    """

    command: tuple[bytes, ...]
    check: Callable[[Reply], TarryError | None]
    probe: tuple[bytes, ...]
    requirement: str


@final
class Command(AnyRequest[T], eq=False):
    """One plain command, for what needs no script. Safe to repeat. ``args[key_index]`` is the key. ``read_only``: a replica may
    answer it."""

    args: tuple[bytes, ...]
    decode: Callable[[Reply], T]
    key_index: int = 1
    read_only: bool = False


class Transaction(Generic[T]):
    """Plain commands on one connection, for servers without scripts: ``decide`` gets the replies to ``begin``, and returns the
    commands of a MULTI.

    If ``begin`` has a WATCH and its key has changed, nothing is done, and the transaction starts again. Nothing is done either if
    ``decide`` returns no commands, or raises. Safe to repeat.
    """

    __slots__ = ("begin", "decide", "decode", "key")

    def __init__(
        self,
        key: bytes,
        begin: Sequence[tuple[bytes, ...]],
        decide: Callable[[list[Reply]], Sequence[tuple[bytes, ...]]],
        decode: Callable[[list[Reply]], T],
    ) -> None:
        self.key = key
        self.begin = begin
        self.decide = decide
        self.decode = decode


Request = ScriptCall[Any] | Command[Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that do not depend on each other. The reply is a list with the value or the error of each.

    A request that hands out jobs is never in a batch: an interrupted caller could not release the jobs of many replies.
    """

    requests: Sequence[Request]


Step = Request | Batch
Flow = Generator[Step, Any, T]


Operation = AnyRequest[T] | Generator[Any, Any, T]
"""The result of a verb: a request, or a flow of requests."""


def ask(request: ScriptCall[T] | Command[T]) -> Flow[T]:
    """Performs one request inside a flow, with its type."""
    answer: T = yield request
    return answer


Asking = Generator[Sequence[tuple[bytes, ...]], Any, T]
"""Steps that one server is asked to take: they yield commands, and are sent the replies. It needs no key, and is no request."""


def flow_of(operation: ScriptCall[T] | Command[T] | Flow[T]) -> Flow[T]:
    """A request or a flow, as a flow."""
    if isinstance(operation, Command):
        return (yield from ask(operation))
    if not isinstance(operation, ScriptCall):
        return (yield from operation)
    try:
        return (yield from ask(operation))
    except WrongType as fault:
        if operation.on_wrong_type is None:
            raise
        return (yield from operation.on_wrong_type(operation, fault))


def split_items(items: Sequence[T], sized: Callable[[T], Sized], most: int = MOST_ITEMS) -> list[Sequence[T]]:
    """Splits items into parts that one script takes without blocking the server for long. ``sized`` is the long value of an item.
    Of none it makes none."""
    if 0 < len(items) <= most and sum(map(len, map(sized, items))) <= MOST_BYTES:
        return [items]
    parts: list[Sequence[T]] = []
    begin = size = 0
    for at, item in enumerate(items):
        added = len(sized(item))
        if at > begin and (at - begin == most or size + added > MOST_BYTES):
            parts.append(items[begin:at])
            begin, size = at, 0
        size += added
    return [*parts, items[begin:]] if items else []


def ask_in_turn(calls: Iterable[ScriptCall[list[T]]], done: list[T] | None = None) -> Flow[list[T]]:
    """Performs calls one after the other, and returns all their answers. They are collected in ``done``, and counted in that of
    an error."""
    answers = [] if done is None else done
    for call in calls:
        try:
            answers += yield from ask(call)
        except (Unavailable, Unconfirmed, JobExists, TopicFull) as fault:
            fault.done += len(answers)
            raise
    return answers


def refusal_error(message: str) -> TarryError | None:
    """The error for a script's refusal, by its first word; ``None`` for a message that is not tarry's."""
    first, _, rest = message.partition(" ")
    if first == "BEYOND":
        return BadInput("delay: the job would be due beyond the year 9999.")
    if first == "CLOCK":
        return BadInput("clock: " + rest + ".")
    if first == "NUMBER":
        return BadInput("delta: " + rest + ".")
    if first == "FORMAT":
        return _format_refusal(*rest.split(" ", 2))
    if first == "NEWER":
        return ServerUnfit(
            f"A newer version of tarry wrote the {rest}, and this one cannot read it. Nothing was changed; upgrade this process."
        )
    if first == "FIELDS":
        return ServerUnfit(f"A native map needs Valkey 9 or Redis 7.4, whose fields of a hash expire ({rest}).")
    return None


_FORMATS = (
    'Redisson up to 3.21.0 can only read "dLc0", from 3.21.1 on only "Bc0Lc0", and each destroys what it cannot read; '
    "nothing was offered."
)


def _format_refusal(why: str, other: str, queue: str) -> BadInput:
    """The error when an offer's format is unknown, or differs from the queue's."""
    if why == "unknown":
        return BadInput(
            f"format: it is not known yet which Redisson reads the queue {queue!r}. {_FORMATS} Give "
            'redisson="3.15.1", its version in Java (for all of a process TARRY_REDISSON), or '
            'format="dLc0" or "Bc0Lc0", or format="tarry" if no Java reads it.'
        )
    known = f"was set to {other}" if why == "remembered" else f"has elements of {other}"
    return BadInput(
        f"format: the queue {queue!r} {known}, and this call uses another one. {_FORMATS} Correct the call; or, if Java "
        f"was upgraded, set the new format: `tarry delayed-queue format {queue} …`, or set_format()."
    )
