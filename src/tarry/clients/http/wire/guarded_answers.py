"""Answers about guarded queues."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from tarry.clients.http.wire import bodies
from tarry.clients.http.wire.types import Answer, AnyJson, Base64, Milliseconds, Moment, ms
from tarry.verbs.codecs import RAW
from tarry.verbs.guarded.context import GuardedStats, Item


class GuardedItem(Answer, kw_only=True):
    """An item that was taken."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    due: Moment
    lateness_ms: Milliseconds


class GuardedItems(Struct):
    """The first first; none, if none was due in time."""

    items: list[GuardedItem]


class GuardedStatsShown(Struct):
    """The state of a guarded queue. ``lateness_ms``: how late its first item is."""

    size: int
    overdue: int
    next_due: Moment | None
    lateness_ms: Milliseconds


def items(found: list[Item[Any]]) -> GuardedItems:
    return GuardedItems([_item(one) for one in found])


def _item(one: Item[Any]) -> GuardedItem:
    """A member that cannot be read is its bytes."""
    body = (one.value, RAW) if isinstance(one.value, bytes) else one.value
    return GuardedItem(**bodies.body_fields(body), due=one.due, lateness_ms=ms(one.lateness))


def guarded_stats(now: GuardedStats) -> GuardedStatsShown:
    return GuardedStatsShown(now.size, now.overdue, now.next_due, ms(now.lateness))
