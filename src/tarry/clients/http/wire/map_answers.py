"""Answers about map caches."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from tarry.clients.http.wire.schemas import model_schema, schema_of
from tarry.clients.http.wire.types import Answer, Milliseconds
from tarry.verbs.mapcache.models import MapStats

MAP_STATS = schema_of(
    MapStats,
    "MapSize",
    "``size``: entries that live; ``expired``: those that wait for the evictor, unseen; ``max_size`` ``null``: unlimited.\n\n"
    "``mode``: which entries are removed when it is full, ``LRU`` or ``LFU``; ``keepers``: the evictor and its deputy.",
    known="name",
    renamed={"evictors": "keepers"},
)


class MapEntry(Struct):
    """As the codecs read them; ``bytes``, and what a codec cannot read, as base64 text."""

    key: Any
    value: Any


class MapPage(Answer):
    """Without ``cursor`` it is the last page; with one there may be more, even if this page is empty."""

    entries: list[MapEntry]
    cursor: str | None = None


class EntryLooked(Struct, omit_defaults=True):
    """``value`` is left out where there is none, or its time to live is over; ``there``: its idle time is not over, either.

    ``remaining_ms``: how long it lives yet, the shorter of its two times; ``null``: for ever.
    """

    there: bool
    value: Any | UnsetType = UNSET
    remaining_ms: Milliseconds | UnsetType | None = UNSET


class EntriesLooked(Struct):
    """In the order of the keys."""

    entries: list[EntryLooked]


MAP_PAGE, ENTRIES_LOOKED = model_schema(MapPage), model_schema(EntriesLooked)
