"""Answers about shared queues."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement
from tarry.verbs.redisson.values import Opaque
from tarry.wire.schemas import Schema, base64_text, field_schema, model_schema, schema_of
from tarry.wire.types import Answer

OFFERED: Schema[list[datetime]] = field_schema(
    "Offered", "due", list[datetime], "When each element is due, by the server's clock."
)
CHANGED: Schema[bool] = field_schema("Changed", "changed", bool, "Whether there was something to do.")
CONTAINED: Schema[bool] = field_schema("Contained", "contains", bool, "Whether each of them is there.")
POISON_ELEMENT = schema_of(PoisonElement, "PoisonElementShown", "Bytes that could not be used, and why.")
POISON: Schema[list[PoisonElement]] = field_schema(
    "Poison", "elements", list[PoisonElement], "The elements that could not be used."
)
QUEUE_STATS = schema_of(
    QueueStats,
    "QueueStatsShown",
    "A shared queue at one moment, by the server's clock. ``movers`` 0: no tarry client consumes it. ``format`` is that of its\n"
    "elements, as it is remembered.",
    derived=("oldest_overdue",),
)


class QueueSize(Struct):
    """``delayed``: not moved yet; ``ready``: may be taken."""

    delayed: int
    ready: int


class Elements(Answer):
    """``bytes`` elements, and what the codec cannot read, as base64 text. ``next``: where the next page begins, if there is one."""

    values: list[Any]
    next: int | None = None


class TakenElements(Answer):
    """The taken elements, and their queue; without a queue no element came in time."""

    values: list[Any]
    queue: str | None = None


QUEUE_SIZE = model_schema(QueueSize)
ELEMENTS, TAKEN = model_schema(Elements), model_schema(TakenElements)


def elements(values: Sequence[Any], next: int | None = None) -> Elements:
    return Elements([plain(value) for value in values], next)


def payloads(values: Sequence[str]) -> list[bytes]:
    """Of the codec ``bytes``. Raises ``ValueError`` or ``TypeError``."""
    return [b64decode(value, validate=True) for value in values]


def plain(value: Any) -> Any:
    """Values that JSON cannot express become text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64_text(bytes(value))
    if value is None or isinstance(value, (str, bool, datetime)):
        return value
    if isinstance(value, (int, float)):  # Redisson's own kinds of numbers among them
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    return base64_text(value.raw) if isinstance(value, Opaque) else str(value)
