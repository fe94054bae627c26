"""Endpoints of map caches that are shared with Java applications on Redisson: read-only views."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from tarry.verbs.redisson.mapcache.map_values import Backend, MapStats
from tarry.wire.endpoint import ANY_SCOPE, VIEW, Endpoint, Example
from tarry.wire.redisson.queue_models import CodecName, VersionName
from tarry.wire.schemas import model_schema, schema_of
from tarry.wire.types import Answer, Milliseconds, Strict, with_pattern


class MapQuery(Strict):
    """``redisson-native``: what Redisson calls ``getMapCacheNative``; ``native``: a map of the namespace, without Java."""

    backend: Backend = "redisson"


class SizeQuery(Strict):
    """A map of Redisson's scripts; a native one keeps no numbers."""

    backend: Literal["redisson"] = "redisson"


class EntriesQuery(MapQuery):
    """``redisson``: its version in the Java application; codecs if Java sets others; and where the page begins."""

    codec: CodecName | None = None
    key_codec: CodecName | None = None
    redisson: VersionName | None = None
    cursor: Annotated[str, with_pattern(r"^[0-9]{1,19}$"), Meta(max_length=20)] = "0"


class LookUp(Strict, kw_only=True):
    """``keys`` as the codec takes them; bytes as base64 text."""

    keys: Annotated[list[Any], Meta(min_length=1, max_length=1000)]
    codec: CodecName | None = None
    key_codec: CodecName | None = None
    redisson: VersionName | None = None
    backend: Backend = "redisson"


MAP_STATS = schema_of(
    MapStats,
    "MapSize",
    "``size``: entries that live; ``expired``: those that wait for the evictor, unseen; ``max_size`` ``null``: unlimited.\n\n"
    "``mode``: which entries are removed when it is full, ``LRU`` or ``LFU``; ``evictors``: the evictor and its deputy.",
    known="name",
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

    ``remaining_ms``: how long it lives yet, the shorter of its two times; ``null``: forever.
    """

    there: bool
    value: Any | UnsetType = UNSET
    remaining_ms: Milliseconds | UnsetType | None = UNSET


class EntriesLooked(Struct):
    """In the order of the keys."""

    entries: list[EntryLooked]


MAP_PAGE, ENTRIES_LOOKED = model_schema(MapPage), model_schema(EntriesLooked)


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PATH = {"map": "prices"}
_NOW = datetime(2027, 1, 15, 8, 0, tzinfo=timezone.utc)
_SIZE = MapStats(
    name="prices",
    now=_NOW,
    size=12,
    expired=3,
    next_expiry=_NOW + timedelta(seconds=20),
    max_size=1000,
    mode="LRU",
    listened=True,
    evictors=2,
)

SIZE = Endpoint(
    "GET",
    "/v1/map-caches/{map}",
    scopes=ANY_SCOPE,
    query_model=SizeQuery,
    returns=MAP_STATS,
    example=Example(answer=_SIZE, path=_PATH),
)
ENTRIES = Endpoint(
    "GET",
    "/v1/map-caches/{map}/entries",
    scopes=VIEW,
    query_model=EntriesQuery,
    returns=MAP_PAGE,
    example=Example(answer=MapPage([MapEntry("tea", 3)]), path=_PATH),
)
LOOK = Endpoint(
    "POST",
    "/v1/map-caches/{map}/look",
    scopes=VIEW,
    body_model=LookUp,
    returns=ENTRIES_LOOKED,
    example=Example(
        LookUp(keys=["tea"], codec="json"),
        EntriesLooked([EntryLooked(True, 3, 28500)]),
        _PATH,
    ),
)
