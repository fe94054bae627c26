"""Decoding payloads that were taken: a payload that the codec cannot decode is set aside, with the reason."""

from __future__ import annotations

from typing import TypeVar

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.verbs.delayed import elements, transfer
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext

T = TypeVar("T")


def poll(context: QueueContext[T], n: int) -> Flow[list[T]]:
    """Takes up to ``n`` values in the order of offers, due or not."""
    return _decode_some(context, elements.poll(context, n))


def poll_ready(context: QueueContext[T], n: int) -> Flow[list[T]]:
    """Moves due elements, and takes up to ``n`` ready values."""
    return _decode_some(context, transfer.poll_ready(context, n))


def _decode_some(context: QueueContext[T], take: ScriptCall[DecodedPayloads]) -> Flow[list[T]]:
    while True:
        taken = yield from ask(take)
        yield from _set_aside(context, taken)
        if taken.values or not taken.undecodable:
            return taken.values


def read(context: QueueContext[T], payload: bytes) -> Flow[list[T]]:
    """The value of a payload that was taken, in a list; empty if it was set aside."""
    taken = context.decode_all([payload])
    yield from _set_aside(context, taken)
    return taken.values


def _set_aside(context: QueueContext[T], decoded: DecodedPayloads) -> Flow[None]:
    if decoded.undecodable:
        yield from ask(transfer.set_aside(context.keys, decoded.undecodable))
