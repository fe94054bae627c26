"""Adding elements: ``offer`` and ``offer_many``.

Rules
- The server's clock decides when an element is due: in whole milliseconds, rounded up.
- Elements with equal due times are ordered by their bytes: the marks of one ``offer_many`` rise, so its order is kept.
- No element is written in a format that may be wrong: Redisson up to 3.21.0 cannot read the new one, later versions
  cannot read the old one. The script knows the format that was set or seen (docs/decisions/0041-the-format-is-remembered.md).
- An offer whose answer was lost is sent again with the same mark, and recognized. Only if it became due and was moved
  in between, it is delivered twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TypeVar

from tarry.core.requests import Flow, Reply, ScriptCall, ask_in_turn, split_items
from tarry.core.scripts import Script
from tarry.values.durations import MILLISECOND, Duration, as_datetime, duration_us
from tarry.values.keys import QUEUE_PARTS
from tarry.verbs.redisson.delayed.queue_context import QueueContext
from tarry.verbs.redisson.elements import Format, pack

T = TypeVar("T")

OFFER = Script("redisson/delayed/offer", args=("given",), item=("delay", "new", "old", "payload"), keys=QUEUE_PARTS)
MARK_BYTES = 8


def offer(context: QueueContext[T], value: T, delay: Duration) -> ScriptCall[datetime]:
    mark = context.random_marks(MARK_BYTES)
    item = _item(context.encode(value), mark, mark, b"%d" % duration_us(delay))
    return ScriptCall(OFFER, context.keys, (_format(context),), lambda reply: _due_times(reply)[0], items=item)


def offer_many(context: QueueContext[T], values: Iterable[T], delay: Duration) -> Flow[list[datetime]]:
    """Offers many values: all are encoded before the first script is sent; then one script for each 1,000 elements or 1 MB."""
    delay_us = b"%d" % duration_us(delay)
    payloads = [context.encode(value) for value in values]
    marks = [context.random_marks(MARK_BYTES) for _ in payloads]
    rising = _ascending_marks(marks, Format.NEW), _ascending_marks(marks, Format.OLD)
    offered = [_item(payload, new, old, delay_us) for payload, new, old in zip(payloads, *rising, strict=True)]

    def call(part: Sequence[tuple[bytes, ...]]) -> ScriptCall[list[datetime]]:
        items = [arg for item in part for arg in item]
        return ScriptCall(OFFER, context.keys, (_format(context),), _due_times, items=items, never_merged=True)

    return ask_in_turn(map(call, split_items(offered, itemgetter(3))))


def _ascending_marks(marks: list[bytes], format: Format) -> list[bytes]:
    """Marks in the order of their bytes in the server's sorted set."""
    return sorted(marks, key=lambda mark: pack(b"", mark, format))


def _item(payload: bytes, new: bytes, old: bytes, delay: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """One element in both formats, each with its mark: the script takes the right one."""
    heads = (pack(payload, new, Format.NEW), pack(payload, old, Format.OLD))
    of_new, of_old = (packed[: len(packed) - len(payload)] for packed in heads)
    return delay, of_new, of_old, payload


def _format(context: QueueContext[T]) -> bytes:
    return context.format.encode() if context.format is not None else b""


def _due_times(reply: Reply) -> list[datetime]:
    return [as_datetime(due * MILLISECOND) for due in reply]
