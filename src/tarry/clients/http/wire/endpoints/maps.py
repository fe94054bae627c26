"""Endpoints of map caches that are shared with Java applications on Redisson: read-only views."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from tarry.clients.http.wire import map_answers, map_models
from tarry.clients.http.wire.endpoint import ANY_SCOPE, VIEW, Endpoint, Example
from tarry.verbs.mapcache.models import MapStats

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
    query_model=map_models.SizeQuery,
    returns=map_answers.MAP_STATS,
    example=Example(answer=_SIZE, path=_PATH),
)
ENTRIES = Endpoint(
    "GET",
    "/v1/map-caches/{map}/entries",
    scopes=VIEW,
    query_model=map_models.EntriesQuery,
    returns=map_answers.MAP_PAGE,
    example=Example(answer=map_answers.MapPage([map_answers.MapEntry("tea", 3)]), path=_PATH),
)
LOOK = Endpoint(
    "POST",
    "/v1/map-caches/{map}/look",
    scopes=VIEW,
    body_model=map_models.LookUp,
    returns=map_answers.ENTRIES_LOOKED,
    example=Example(
        map_models.LookUp(keys=["tea"], codec="json"),
        map_answers.EntriesLooked([map_answers.EntryLooked(True, 3, 28500)]),
        _PATH,
    ),
)
