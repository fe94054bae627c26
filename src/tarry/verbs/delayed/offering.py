"""Putting elements in: ``offer`` and ``offer_many``.

Rules
- The server's clock decides when an element is due: in whole milliseconds, rounded up.
- Among equal due times the bytes decide who is first: the marks of one ``offer_many`` rise, so its order holds.
- An offer whose answer was lost is sent again with the same mark, and finds itself. Only if it became due and was moved
  in between, it is delivered twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from tarry.errors import Unavailable
from tarry.idea.calls import Call, Flow, Reply, ask
from tarry.idea.scripts import Script
from tarry.verbs.delayed.desk import QueueDesk
from tarry.verbs.redisson.elements import Format, pack
from tarry.words.durations import MILLISECOND, Duration, as_datetime, microseconds
from tarry.words.keys import QUEUE_PARTS

T = TypeVar("T")

OFFER = Script("delayed/offer", args=("format",), item=("delay", "new", "old", "payload"), keys=QUEUE_PARTS)
MARK_BYTES = 8
MOST, MOST_BYTES = 1000, 1_000_000
"""One script takes no more: it must not hold the server up."""


def offer(desk: QueueDesk[T], value: T, delay: Duration) -> Call[datetime]:
    item = _item(desk.encode(value), desk.marks(MARK_BYTES), b"%d" % microseconds(delay))
    return Call(OFFER, desk.keys, (_format(desk),), lambda reply: _moments(reply)[0], items=item)


def offer_many(desk: QueueDesk[T], values: Iterable[T], delay: Duration) -> Flow[list[datetime]]:
    """Everything is checked before the first script goes; then one script for each 1,000 elements or 1 MB."""
    when = b"%d" % microseconds(delay)
    chunks: list[list[bytes]] = []
    size = 0
    payloads = [desk.encode(value) for value in values]
    for payload, mark in zip(payloads, _rising(desk, len(payloads)), strict=True):
        item = _item(payload, mark, when)
        if not chunks or len(chunks[-1]) == MOST * OFFER.stride or size + len(item[3]) > MOST_BYTES:
            chunks.append([])
            size = 0
        chunks[-1] += item
        size += len(item[3])
    return _offer_chunks(desk, chunks)


def _offer_chunks(desk: QueueDesk[T], chunks: list[list[bytes]]) -> Flow[list[datetime]]:
    done: list[datetime] = []
    for items in chunks:
        try:
            done += yield from ask(Call(OFFER, desk.keys, (_format(desk),), _moments, items=items, alone=True))
        except Unavailable as fault:
            fault.done += len(done)
            raise
    return done


def _rising(desk: QueueDesk[T], n: int) -> list[bytes]:
    """Marks in the order that the server will see in them."""
    packed = desk.format if desk.format is not None else Format.NEW
    return sorted((desk.marks(MARK_BYTES) for _ in range(n)), key=lambda mark: pack(b"", mark, packed))


def _item(payload: bytes, mark: bytes, delay: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    heads = [pack(payload, mark, format) for format in Format]
    new, old = (packed[: len(packed) - len(payload)] for packed in heads)
    return delay, new, old, payload


def _format(desk: QueueDesk[T]) -> bytes:
    return desk.format.encode() if desk.format is not None else b""


def _moments(reply: Reply) -> list[datetime]:
    return [as_datetime(due * MILLISECOND) for due in reply]
