"""Elements on their way out of a queue, to somewhere else: claimed, taken over there, let go.

    timeouts, order ──claim──▶ leaving ──(added elsewhere, by an id made of the element)──▶ let_go

Whoever breaks off, and whoever else goes on: an element is in the queue, in ``leaving`` or gone, and nobody moves it while
it leaves. Those that leave together are a departure (tarry.verbs.jobs.migration): what is claimed again is known where it goes,
whatever has become of it there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS, departed_key, leaving_key
from tarry.verbs.delayed.context import QueueContext
from tarry.verbs.redisson.elements import Element, unpack
from tarry.verbs.redisson.values import Opaque, plain

CLAIM = Script(
    "delayed/claim", args=("limit", "nonce", "overtaken", "above"), keys=(*QUEUE_PARTS, "leaving", "departed")
)
LOOK = Script("delayed/look", args=("from", "limit"), keys=(*QUEUE_PARTS, "elements"))
CLAIM_PAGE = 500


@dataclass(frozen=True, slots=True)
class LeavingElement:
    """One element that leaves."""

    element: bytes
    due_ms: int
    body: Any
    """Its value without Java's names for types; bytes as they are, where they mean nothing here."""
    payload: bytes

    @property
    def id(self) -> str:
        """The same for the same element, however often it is claimed."""
        return "redisson-" + sha1(self.element, usedforsecurity=False).hexdigest()


def claim(
    context: QueueContext[Any], word: bytes, overtaken: tuple[bytes, int], limit: int = CLAIM_PAGE
) -> ScriptCall[tuple[bytes, int, list[LeavingElement]]]:
    """A departure, the server's time, and those that leave now: what somebody left there, or the next."""

    def decode(reply: Reply) -> tuple[bytes, int, list[LeavingElement]]:
        departure, now, *flat = reply
        return departure, int(now), decode_leaving(context, flat)

    late, by = overtaken
    args = b"%d" % limit, word, late, b"%d" % by
    return ScriptCall(CLAIM, (*context.keys, leaving_key(context.keys), departed_key(context.keys)), args, decode)


def remove_arrived(context: QueueContext[Any], arrived: Iterable[LeavingElement]) -> Command[int]:
    """They have arrived."""
    return Command((b"ZREM", leaving_key(context.keys), *[one.element for one in arrived]), int)


def preview(context: QueueContext[Any], at: int, *, claimed: bool) -> ScriptCall[tuple[list[LeavingElement], int]]:
    """A page of what would leave, or leaves; and how many elements it has."""
    key = leaving_key(context.keys) if claimed else context.keys.timeouts
    args = (b"%d" % at, b"%d" % CLAIM_PAGE)
    return ScriptCall(
        LOOK,
        (*context.keys, key),
        args,
        lambda reply: (decode_leaving(context, reply), len(reply) // 2),
        never_merged=True,
    )


def decode_leaving(context: QueueContext[Any], flat: list[bytes]) -> list[LeavingElement]:
    found: list[LeavingElement] = []
    for element, due in zip(flat[::2], flat[1::2], strict=True):
        read = unpack(element)
        if isinstance(read, Element):
            value = context.decode_or_opaque(read.payload)
            body = value.raw if isinstance(value, Opaque) else plain(value)
            found.append(LeavingElement(element, int(float(due)), body, read.payload))
    return found
