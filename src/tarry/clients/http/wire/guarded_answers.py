"""Answers about guarded queues."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from tarry.clients.http.wire import bodies
from tarry.clients.http.wire.schemas import Schema, SharedFields, schema_of
from tarry.clients.http.wire.types import Answer, AnyJson, Base64, Milliseconds, Moment
from tarry.errors import BodyError
from tarry.verbs.codecs import RAW, BodyCodec
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


_FIELDS = SharedFields(GuardedItem, Answer, "body", "body_base64", "coded")


def _dump_items(found: list[Item[Any]]) -> GuardedItems:
    return GuardedItems([_dump(item) for item in found])


def _dump(item: Item[Any]) -> GuardedItem:
    """A member that cannot be read is its bytes."""
    body = (item.value, RAW) if isinstance(item.value, bytes) else item.value
    return GuardedItem(**bodies.body_fields(body), **_FIELDS.dump(item))


def _load_items(found: GuardedItems, codec: BodyCodec[Any]) -> list[Item[Any]]:
    return [Item(_load(item, codec), **_FIELDS.load(item)) for item in found.items]


def _load(item: GuardedItem, codec: BodyCodec[Any]) -> Any:
    """As it is, where it cannot be read: it is out of the queue already, and better so than lost."""
    raw, flag = bodies.body_in(item)
    try:
        return codec.decode(raw, flag)
    except BodyError:
        return raw


ITEMS: Schema[list[Item[Any]]] = Schema(GuardedItems, _dump_items, _load_items)
GUARDED_STATS = schema_of(
    GuardedStats, "GuardedStatsShown", "The state of a guarded queue. ``lateness_ms``: how late its first item is."
)
