"""Moving due elements, taking ready payloads, and setting unreadable ones aside.

A transfer is bounded: it does as much as one script may, and returns when to look again. A caller with an id that stays is the
mover of the queue or its deputy, unless others are (lua/lib/seats.lua).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS, QueueKeys
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext
from tarry.verbs.delayed.elements import checked_count

T = TypeVar("T")

TRANSFER = Script(
    "delayed/transfer",
    args=("most", "count", "waiter", "keeps_running", "ahead", "final", "first", "last"),
    item=("place",),
    keys=QUEUE_PARTS,
)
ASIDE = Script("delayed/set_aside", item=("payload", "reason"), keys=QUEUE_PARTS)
MOST = 1000
"""One script moves no more elements."""
NOBODY = b""
MOVER, DEPUTY = 1, 2


@dataclass(frozen=True, slots=True)
class Anchor:
    """Two elements of the list of offers: the first, and one at a position. While both are there, so is all between."""

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
    """``MOVER``, ``DEPUTY`` or 0: the seat of the caller."""
    left: int
    """How many due elements are left."""
    moved: int
    set_aside: int
    assumed_places: bool
    """Whether the positions were right, so that nothing was searched for."""
    due_ahead: list[bytes]
    """The next elements, up to ``ahead``."""
    anchor: Anchor | None
    """The anchor for them, after this transfer; ``None`` if nothing of the known part of the list is left."""
    payloads: list[bytes]


def _parse_result(reply: Reply) -> TransferResult:
    now, wait, seat, left, moved, aside, believed, ahead, anchor, *payloads = reply
    known = Anchor(int(anchor[0]), anchor[1], anchor[2]) if anchor else None
    return TransferResult(
        now=now,
        wait=wait,
        seat=seat,
        left=left,
        moved=moved,
        set_aside=aside,
        assumed_places=bool(believed),
        due_ahead=ahead,
        anchor=known,
        payloads=payloads,
    )


def transfer(
    keys: QueueKeys,
    *,
    mover_id: bytes = NOBODY,
    keeps_seat: bool = False,
    count: int = 0,
    ahead: int = 0,
    places: Sequence[bytes] = (),
    anchor: Anchor | None = None,
) -> ScriptCall[TransferResult]:
    """One transfer; up to ``count`` payloads are taken for the caller, which go back to the head if they are no longer
    wanted.

    ``ahead`` asks for the next elements; ``places`` are their positions, valid as long as the ``anchor`` holds.
    """
    known = (b"%d" % anchor.place, anchor.first, anchor.last) if anchor is not None else (b"", b"", b"")
    args = (b"%d" % (len(places) or MOST), b"%d" % count, mover_id, b"1" if keeps_seat else b"0", b"%d" % ahead, *known)

    def undo(moved: TransferResult) -> Any:
        return give_back(keys.ready, moved.payloads) if moved.payloads else None

    return ScriptCall(
        TRANSFER, keys, args, _parse_result, items=places, never_merged=True, undo=undo if count else None
    )


def give_back(ready: bytes, payloads: Sequence[bytes]) -> Command[int]:
    """Puts payloads back to the head, in their order."""
    return Command((b"LPUSH", ready, *reversed(payloads)), int)


def set_aside(keys: QueueKeys, undecodable: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
    """Sets payloads aside, with the reasons."""
    items = [arg for payload, reason in undecodable for arg in (payload, reason.encode("utf-8", "replace"))]
    return ScriptCall(ASIDE, keys, (), list, items=items, never_merged=True)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Bytes that could not be decoded, and why: a packed element, or the payload of a taken one."""

    raw: bytes
    reason: str


def poll_ready(context: QueueContext[T], n: int) -> ScriptCall[DecodedPayloads]:
    """Moves due elements, and takes up to ``n`` payloads."""
    call = transfer(context.keys, count=checked_count(n))
    answered: list[bytes] = []

    def decode(reply: Reply) -> DecodedPayloads:
        answered[:] = _parse_result(reply).payloads
        return context.decode_all(answered)

    def undo(_: DecodedPayloads) -> Any:
        return give_back(context.keys.ready, answered) if answered else None

    return ScriptCall(TRANSFER, call.keys, call.args, decode, undo=undo)
