"""Routes of map caches that are shared with Java applications on Redisson: read-only views.

Redisson's own ``get`` is not read-only: it restarts an entry's idle time. Applications write entries themselves.
A map has Redisson's keys and no namespace, so it needs a token of the service's first namespace. One with
``backend=native`` lies under the namespace of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tarry.errors import BadInput
from tarry.internal import perform, server_verbs
from tarry.programs.service.redisson import queue_elements
from tarry.programs.serving.problems import Forbidden
from tarry.programs.serving.router import RouteTable
from tarry.redisson import MapStats
from tarry.types import Codec
from tarry.wire.redisson import map_endpoints as endpoints
from tarry.wire.redisson import map_endpoints as maps
from tarry.wire.redisson.queue_answers import plain
from tarry.wire.types import ms

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest
    from tarry.redisson import AsyncMapCache

table = RouteTable("maps")
MAP = "/v1/map-caches/{map}"


def map_of(
    request: ServiceRequest,
    backend: Any,
    codec: str | None = "bytes",
    key_codec: str | Codec[Any] | None = None,
    redisson: str | None = None,
) -> AsyncMapCache[Any, Any]:
    """The map of the path. Raises ``BadInput`` for a key of tarry's or Redisson's own."""
    name, shared = request.path["map"], backend != "native"
    if shared and request.namespace != request.app.settings.namespaces[0]:
        raise Forbidden(
            "Maps shared with Java have no namespace; use the service's first one, and a token of it. Only a map with "
            "backend=native is the namespace's."
        )
    return request.client.map_cache(
        name, redisson=redisson, codec=codec, key_codec=key_codec, backend=backend, policy=None
    )


@table.handles(endpoints.SIZE)
async def size(request: ServiceRequest) -> MapStats:
    """How many entries live, how many have expired and wait for the evictor, what expires next, the maximum size."""
    return await map_of(request, request.query_model.backend).stats()


@table.handles(endpoints.ENTRIES)
async def entries(request: ServiceRequest) -> maps.MapPage:
    """One page of the live entries; does not restart their idle time.

    Give the page's `cursor` for the next one, until there is none; an entry may appear twice while the map grows.
    """
    query = request.query_model
    if not (query.cursor.isascii() and query.cursor.isdigit()) or int(query.cursor) >= 1 << 64:
        raise BadInput(f"cursor: {query.cursor!r} is not what a page answered.")
    verbs = server_verbs(map_of(request, query.backend, query.codec, query.key_codec, query.redisson))
    cursor, pairs = await perform(request.client, verbs.page(query.cursor.encode()))
    context = verbs.context
    shown = [
        maps.MapEntry(plain(context.decode_key_or_opaque(key)), plain(context.decode_or_opaque(value)))
        for key, value in pairs
    ]
    return maps.MapPage(shown, None if cursor == b"0" else cursor.decode())


@table.handles(endpoints.LOOK)
async def look(request: ServiceRequest) -> maps.EntriesLooked:
    """The values of keys, and how long they still live; does not restart their idle time."""
    payload = request.payload
    keys = queue_elements.values(payload.keys, payload.key_codec or payload.codec, "keys")
    seen = server_verbs(map_of(request, payload.backend, payload.codec, payload.key_codec, payload.redisson)).context
    cache = map_of(request, payload.backend, "bytes", seen.key_codec)
    return maps.EntriesLooked(await asyncio.gather(*[_looked(cache, key, seen.decode_or_opaque) for key in keys]))


async def _looked(cache: AsyncMapCache[Any, bytes], key: Any, seen: Callable[[bytes], Any]) -> maps.EntryLooked:
    raw, left = await asyncio.gather(cache.get_with_ttl_only(key), cache.remaining_ttl(key))
    remaining: Any = UNSET if left is None else None if left == timedelta.max else ms(left)
    return maps.EntryLooked(left is not None, UNSET if raw is None else plain(seen(raw)), remaining)
