"""Operations as values: what a verb wants from the server, said without doing it.

    Call      one script, one round trip: keys, arguments, items, and how to read the reply
    Command   the same for a plain command
    Together  several of the two that wait for nothing of each other: one round trip for all
    flow      a generator of the three, for anything longer than one round trip

A verb returns one of them; a client's runner performs it, blocking or awaiting. Between the two worlds lies one
``await``, and it is the runner's.

    def move(a, b):                            # a flow
        found = yield from ask(take(a))        # ask: perform a call, typed
        yield from ask(put(b, found))
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tarry.core.scripts import Script
from tarry.errors import BadInput, ServerUnfit, TarryError

T = TypeVar("T")
Reply = Any
"""What the driver gives for a reply: ``int``, ``bytes``, ``None`` or a list of them."""

FIRST_TIME, REPLAY = b"0", b"1"
"""The last argument of a script that must know a repeated call from a first one: ``again``."""


class ScriptCall(Generic[T]):
    """One script, one round trip. ``items`` are flat, ``script.stride`` values each.

    Calls of the same script, keys and ``args`` that carry items may be sent as one; the reply then holds ``lead``
    values for all, and one answer for each item. ``alone`` forbids it: the items stand or fall together.

    Every call is safe to repeat: its script knows a replay, or nothing changes, or what a lost answer handed out comes
    back after its TTR. ``undo`` makes the call that gives an answer back which nobody wants any more. ``then`` is asked right after it,
    on the same connection: whether what it wrote is where it should be. ``redirect`` is what to do instead where the server says that
    a key is of another kind: nothing was done then.
    """

    __slots__ = (
        "args",
        "confirmation",
        "decode",
        "items",
        "keys",
        "never_merged",
        "on_wrong_type",
        "reply_header",
        "script",
        "undo",
    )

    def __init__(
        self,
        script: Script,
        keys: tuple[bytes, ...],
        args: tuple[bytes, ...],
        decode: Callable[[Reply], T],
        *,
        items: Sequence[bytes] = (),
        reply_header: int = 0,
        never_merged: bool = False,
        undo: Callable[[T], ScriptCall[Any] | None] | None = None,
        confirmation: Confirmation | None = None,
    ) -> None:
        self.script = script
        self.keys = keys
        self.args = args
        self.decode = decode
        self.items = items
        self.reply_header = reply_header
        self.never_merged = never_merged
        self.undo = undo
        self.confirmation = confirmation
        self.on_wrong_type: Callable[[ScriptCall[T], WrongType], Flow[T]] | None = None

    def as_replay(self) -> ScriptCall[T]:
        """The same call, told that it may have been done already."""
        if not self.script.detects_replays:
            return self
        args = (*self.args[:-1], REPLAY)
        replay = ScriptCall(
            self.script,
            self.keys,
            args,
            self.decode,
            items=self.items,
            reply_header=self.reply_header,
            never_merged=self.never_merged,
            undo=self.undo,
            confirmation=self.confirmation,
        )
        replay.on_wrong_type = self.on_wrong_type
        return replay

    def __repr__(self) -> str:
        return f"Call({self.script.name}, {len(self.items)} values)"


class WrongType(ServerUnfit):
    """A key is of another kind than it should be: another program has the name, or the topic has been given partitions."""


class CannotConfirm(ServerUnfit):
    """A server was not given what it could not confirm. ``why``: in its words, and what it takes."""

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing was added: {why}")
        self.why = why


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A command that waits until what its connection wrote is where it should be, and what its answer means.

    ``trial`` is the same where nothing was written, answered at once: a server that refuses it is given nothing.
    ``needs`` says what it takes.
    """

    command: tuple[bytes, ...]
    check: Callable[[Reply], TarryError | None]
    probe: tuple[bytes, ...]
    requirement: str


class Command(Generic[T]):
    """One plain command, for what needs no script. Safe to repeat. ``at`` says which of its words is the key."""

    __slots__ = ("args", "decode", "key_index")

    def __init__(self, args: tuple[bytes, ...], decode: Callable[[Reply], T], *, key_index: int = 1) -> None:
        self.args = args
        self.decode = decode
        self.key_index = key_index


class Transaction(Generic[T]):
    """Plain commands on one connection, where no scripts run: what ``begin`` answers decides what is done at once.

    ``decide`` may watch what it has seen: then nothing is done if that has changed, and it begins anew. Answering no
    commands, or raising, it does nothing. Safe to repeat.
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
    """Requests that wait for nothing of each other. The answer is a list: of each its value, or the error that it ended in.

    What hands out is asked alone: who is interrupted could not give back what came for many.
    """

    requests: Sequence[Request]


Step = Request | Batch
Flow = Generator[Step, Any, T]


def ask(request: ScriptCall[T] | Command[T]) -> Flow[T]:
    """Performs one request inside a flow, with its type."""
    answer: T = yield request
    return answer


def flow_of(operation: ScriptCall[T] | Command[T] | Flow[T]) -> Flow[T]:
    """Whatever it is, as a flow."""
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


def refusal_error(words: str) -> TarryError | None:
    """The error that a script's refusal means, by its first word; ``None`` for words that are not ours."""
    first, _, rest = words.partition(" ")
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
        return ServerUnfit(f'backend="native" needs Valkey 9 or Redis 7.4, whose fields of a hash expire ({rest}).')
    return None


_FORMATS = (
    'Redisson up to 3.21.0 can only read "dLc0", from 3.21.1 on only "Bc0Lc0", and each destroys what it cannot read; '
    "nothing was offered."
)


def _format_refusal(why: str, other: str, queue: str) -> BadInput:
    """Why nothing is offered into a queue that Java may read."""
    if why == "unknown":
        return BadInput(
            f"format: nobody has said yet which Redisson reads the queue {queue!r}. {_FORMATS} Say it once: "
            'format="dLc0" or "Bc0Lc0", or its version, such as "3.16.8", or "tarry" if no Java reads it; for all queues by the '
            "client's queue_format, or by TARRY_QUEUE_FORMAT."
        )
    known = f"was said to have {other}" if why == "remembered" else f"has elements of {other}"
    return BadInput(
        f"format: the queue {queue!r} {known}, and here another one is meant. {_FORMATS} Correct what is said here; or, if Java "
        f"was upgraded, say it redirect: `tarry delayed-queue format {queue} …`, or set_format()."
    )
