"""What is due is moved, what is ready is taken, and what cannot be read is set aside.

The transfer is bounded: it does what one script may do, and says when to look again. Whoever calls it with a name and
stays is the mover of the queue or its deputy, unless others are (lua/lib/movers.lua).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS, QueueKeys
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext
from tarry.verbs.delayed.elements import want_of

T = TypeVar("T")

TRANSFER = Script(
    "delayed/transfer",
    args=("most", "want", "waiter", "stays", "ahead", "final", "first", "last"),
    item=("place",),
    keys=QUEUE_PARTS,
)
ASIDE = Script("delayed/set_aside", item=("payload", "reason"), keys=QUEUE_PARTS)
MOST = 1000
"""One script moves no more."""
NOBODY = b""
MOVER, DEPUTY = 1, 2


@dataclass(frozen=True, slots=True)
class Anchor:
    """Two elements of the list of offers: the first, and one at a place; as long as both are there, so is all between."""

    place: int
    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class TransferResult:
    """The answer of one transfer."""

    now: int
    wait: int
    """Microseconds until the next look."""
    seat: int
    """``MOVER``, ``DEPUTY`` or 0: whether others now rely on the caller."""
    left: int
    """How many are due and not moved yet."""
    moved: int
    set_aside: int
    assumed_places: bool
    """Whether they were where they were said to be, so that nothing was searched for."""
    due_ahead: list[bytes]
    """Those who are next, as many as were asked for."""
    anchor: Anchor | None
    """With them: where the list ends now, as far as it was known before; ``None`` when nothing of that is left."""
    payloads: list[bytes]


def _parse_result(reply: Reply) -> TransferResult:
    now, wait, seat, left, moved, aside, believed, ahead, anchor, *payloads = reply
    known = Anchor(int(anchor[0]), anchor[1], anchor[2]) if anchor else None
    return TransferResult(now, wait, seat, left, moved, aside, bool(believed), ahead, known, payloads)


def transfer(
    keys: QueueKeys,
    *,
    mover_id: bytes = NOBODY,
    keeps_seat: bool = False,
    want: int = 0,
    ahead: int = 0,
    places: Sequence[bytes] = (),
    anchor: Anchor | None = None,
) -> ScriptCall[TransferResult]:
    """One transfer; ``want`` takes as many payloads for the caller, which go back to the head if nobody wants them.

    ``ahead`` asks for the next so many; ``places`` are theirs, as long as the ``anchor`` holds.
    """
    known = (b"%d" % anchor.place, anchor.first, anchor.last) if anchor is not None else (b"", b"", b"")
    args = (b"%d" % (len(places) or MOST), b"%d" % want, mover_id, b"1" if keeps_seat else b"0", b"%d" % ahead, *known)

    def undo(moved: TransferResult) -> Any:
        return give_back(keys.ready, moved.payloads) if moved.payloads else None

    return ScriptCall(TRANSFER, keys, args, _parse_result, items=places, never_merged=True, undo=undo if want else None)


def give_back(ready: bytes, payloads: Sequence[bytes]) -> Command[int]:
    """Payloads that nobody took over are at the head again, in their order."""
    return Command((b"LPUSH", ready, *reversed(payloads)), int)


def set_aside(keys: QueueKeys, undecodable: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
    """Sets payloads aside, with the reasons."""
    items = [word for payload, reason in undecodable for word in (payload, reason.encode("utf-8", "replace"))]
    return ScriptCall(ASIDE, keys, (), list, items=items, never_merged=True)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Bytes that could not be used, and why: a packed element, or the payload of one that was taken."""

    raw: bytes
    reason: str


def set_aside_elements(keys: QueueKeys) -> Command[list[SetAside]]:
    """What was set aside."""

    def decode(reply: Reply) -> list[SetAside]:
        flat = [word for pair in reply.items() for word in pair] if isinstance(reply, dict) else reply
        texts = [reason.decode("utf-8", "replace").partition(" ")[2] for reason in flat[1::2]]
        return [SetAside(raw, text) for raw, text in zip(flat[::2], texts, strict=True)]

    return Command((b"HGETALL", keys.poison), decode)


# ── what is ready ────────────────────────────────────────────────────────────────────────────────────────────────────


def put_element(context: QueueContext[T], value: T) -> Command[int]:
    """One payload at the end of the list. Sent again after a lost answer, it may be there twice."""
    return Command((b"RPUSH", context.keys.ready, context.encode(value)), int)


def poll_ready(context: QueueContext[T], n: int) -> ScriptCall[DecodedPayloads]:
    """Moves what is due, and takes up to ``n``."""
    call = transfer(context.keys, want=want_of(n))
    answered: list[bytes] = []

    def decode(reply: Reply) -> DecodedPayloads:
        answered[:] = _parse_result(reply).payloads
        return context.decode_all(answered)

    def undo(_: DecodedPayloads) -> Any:
        return give_back(context.keys.ready, answered) if answered else None

    return ScriptCall(TRANSFER, call.keys, call.args, decode, undo=undo)


def peek_ready(context: QueueContext[T]) -> Command[T | None]:
    return Command(
        (b"LINDEX", context.keys.ready, b"0"), lambda reply: None if reply is None else context.decode_or_opaque(reply)
    )


def size_ready(keys: QueueKeys) -> Command[int]:
    return Command((b"LLEN", keys.ready), int)


def contains_ready(context: QueueContext[T], value: T) -> Command[bool]:
    words = (b"LPOS", context.keys.ready, context.encode(value))
    return Command(words, lambda reply: context.found(reply is not None, [value]))
