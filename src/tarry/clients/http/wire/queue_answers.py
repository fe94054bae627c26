"""Answers about shared queues."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tarry.clients.http.wire.types import Answer, Base64, Milliseconds, Moment, ms
from tarry.verbs.delayed.stats import QueueStats
from tarry.verbs.delayed.transfer import SetAside
from tarry.verbs.redisson.values import Opaque


class Offered(Struct):
    """When each element is due, by the server's clock."""

    due: list[Moment]


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


class Changed(Struct):
    """Whether there was something to do."""

    changed: bool


class Contained(Struct):
    """Whether each of them is there."""

    contains: bool


class AsideShown(Struct):
    """Bytes that could not be used, and why."""

    raw_base64: Base64
    reason: str


class Poison(Struct):
    """The elements that were set aside."""

    elements: list[AsideShown]


class QueueStatsShown(Struct):
    """A shared queue at one moment, by the server's clock. ``movers`` 0: no tarry client consumes it. ``format`` is that of its
    elements, as it is remembered."""

    queue: str
    now: Moment
    waiting: int
    overdue: int
    ready: int
    poison: int
    leaving: int
    movers: int
    next_due: Moment | None
    oldest_overdue_ms: Milliseconds
    format: str | None = None


class MovedShown(Struct):
    """``aside``: how many could not become a body; ``done`` false: there is more, ask again."""

    moved: int
    aside: int
    done: bool


def elements(values: Sequence[Any], next: int | None = None) -> Elements:
    return Elements([plain(value) for value in values], next)


def poison(found: Sequence[SetAside]) -> Poison:
    return Poison([AsideShown(base64(one.raw), one.reason) for one in found])


def queue_stats(now: QueueStats) -> QueueStatsShown:
    fields = {name: getattr(now, name) for name in QueueStatsShown.__struct_fields__ if name != "oldest_overdue_ms"}
    return QueueStatsShown(**fields, oldest_overdue_ms=ms(now.oldest_overdue))


def base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def payloads(values: Sequence[str]) -> list[bytes]:
    """Of the codec ``bytes``. Raises ``ValueError`` or ``TypeError``."""
    return [b64decode(value, validate=True) for value in values]


def plain(value: Any) -> Any:
    """Values that JSON cannot express become text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64(bytes(value))
    if value is None or isinstance(value, (str, bool, datetime)):
        return value
    if isinstance(value, (int, float)):  # Redisson's own kinds of numbers among them
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(part) for part in value]
    return base64(value.raw) if isinstance(value, Opaque) else str(value)
