"""Moving elements out of a queue into a topic: claimed, added there, removed here.

    timeouts, order ──claim──▶ leaving ──(added to the topic, by an id made of the element)──▶ remove_arrived

If the move is interrupted anywhere, an element is in the queue, in ``leaving``, or removed, and no mover moves it while it is
in
``leaving``. Elements that leave together are a departure (tarry.verbs.jobs.topic_migration): when they are claimed again, the destination
recognizes it, whatever has become of the jobs there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha1
from typing import Any

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS, departed_key, leaving_key
from tarry.verbs.redisson.delayed.learnt_format import log_learnt
from tarry.verbs.redisson.delayed.queue_context import QueueContext
from tarry.verbs.redisson.elements import Element, unpack
from tarry.verbs.redisson.values import Opaque, plain

CLAIM = Script(
    "redisson/delayed/claim", args=("limit", "nonce", "overtaken", "above"), keys=(*QUEUE_PARTS, "leaving", "departed")
)
PREVIEW = Script("redisson/delayed/preview", args=("from", "limit"), keys=(*QUEUE_PARTS, "elements"))
CLAIM_PAGE = 500


@dataclass(frozen=True, slots=True)
class LeavingElement:
    """One element in ``leaving``."""

    element: bytes
    due_ms: int
    body: Any
    """Its value without Java's type names; plain bytes if they cannot be decoded here."""
    payload: bytes

    @property
    def id(self) -> str:
        """The job's id, which is the same however often the element is claimed."""
        return "redisson-" + sha1(self.element, usedforsecurity=False).hexdigest()


def claim(
    context: QueueContext[Any], departure_name: bytes, overtaken: tuple[bytes, int]
) -> ScriptCall[tuple[bytes, int, list[LeavingElement]]]:
    """Takes the next elements out: those that an interrupted departure left in ``leaving``, or the next ones. Returns the
    departure, the server's time, and the elements."""

    def decode(reply: Reply) -> tuple[bytes, int, list[LeavingElement]]:
        departure, now, *flat = reply
        return departure, int(now), decode_leaving(context, flat)

    late, by = overtaken
    args = b"%d" % CLAIM_PAGE, departure_name, late, b"%d" % by
    return ScriptCall(
        CLAIM,
        (*context.keys, leaving_key(context.keys), departed_key(context.keys)),
        args,
        log_learnt(context.keys, decode),
    )


def remove_arrived(context: QueueContext[Any], arrived: Iterable[LeavingElement]) -> Command[int]:
    """Removes elements that have arrived in the topic."""
    return Command((b"ZREM", leaving_key(context.keys), *[leaving.element for leaving in arrived]), int)


def preview(
    context: QueueContext[Any], position: int, *, claimed: bool
) -> ScriptCall[tuple[list[LeavingElement], int]]:
    """A page of the elements that would leave, or are leaving; and its size."""
    key = leaving_key(context.keys) if claimed else context.keys.timeouts
    args = (b"%d" % position, b"%d" % CLAIM_PAGE)
    return ScriptCall(
        PREVIEW,
        (*context.keys, key),
        args,
        log_learnt(context.keys, lambda reply: (decode_leaving(context, reply), len(reply) // 2)),
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
