"""Values out of what was taken: what the codec cannot read is set aside, with the reason, and stops nothing."""

from __future__ import annotations

from typing import TypeVar

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.verbs.delayed import elements, transfer
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext

T = TypeVar("T")


def poll(context: QueueContext[T], n: int) -> Flow[list[T]]:
    """From the head of the order of offers, whenever they are due."""
    return _decode_some(context, elements.poll(context, n))


def poll_ready(context: QueueContext[T], n: int) -> Flow[list[T]]:
    """What is due is moved, and what is ready taken."""
    return _decode_some(context, transfer.poll_ready(context, n))


def _decode_some(context: QueueContext[T], take: ScriptCall[DecodedPayloads]) -> Flow[list[T]]:
    while True:
        taken = yield from ask(take)
        yield from _set_aside(context, taken)
        if taken.values or not taken.undecodable:
            return taken.values


def read(context: QueueContext[T], payload: bytes) -> Flow[list[T]]:
    """The value of a payload that was taken, or none."""
    taken = context.decode_all([payload])
    yield from _set_aside(context, taken)
    return taken.values


def _set_aside(context: QueueContext[T], decoded: DecodedPayloads) -> Flow[None]:
    if decoded.undecodable:
        yield from ask(transfer.set_aside(context.keys, decoded.undecodable))
