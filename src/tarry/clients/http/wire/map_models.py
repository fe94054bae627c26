"""Requests about map caches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from tarry.clients.http.wire.queue_models import CodecName
from tarry.clients.http.wire.types import Strict, with_pattern
from tarry.verbs.mapcache.models import Backend


class MapQuery(Strict):
    """``native``: the map that Redisson calls ``getMapCacheNative``."""

    backend: Backend = "redisson"


class SizeQuery(Strict):
    """A map of Redisson's scripts; one with ``native`` keeps no numbers."""

    backend: Literal["redisson"] = "redisson"


class EntriesQuery(MapQuery):
    """The codecs of the Java application, and where the page begins."""

    codec: CodecName = "kryo5"
    key_codec: CodecName | None = None
    cursor: Annotated[str, with_pattern(r"^[0-9]{1,19}$"), Meta(max_length=20)] = "0"


class LookUp(Strict, kw_only=True):
    """``keys`` as the codec takes them; bytes as base64 text."""

    keys: Annotated[list[Any], Meta(min_length=1, max_length=1000)]
    codec: CodecName = "kryo5"
    key_codec: CodecName | None = None
    backend: Backend = "redisson"
