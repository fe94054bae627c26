"""Map caches that are shared with Java applications on Redisson: looking at one. Its entries are the applications' own.

A map has Redisson's keys and no namespace, so a token for it is one of the service's first namespace.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from tarry.clients.http import answers
from tarry.errors import BadInput
from tarry.programs.service.paths.queues import OURS
from tarry.programs.service.problems import Forbidden
from tarry.programs.service.table import CONSUME, PRODUCE, Example, Table

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange

table = Table("maps")
_NOW = datetime(2027, 1, 15, 8, 0, tzinfo=timezone.utc)
_EXAMPLE = answers.MapSize(_NOW, 12, 3, datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc), 1000, "LRU", True, 2)


@table.row(
    "GET",
    "/v1/map-caches/{map}",
    may=PRODUCE | CONSUME,
    gives=answers.MapSize,
    example=Example(answer=_EXAMPLE, path={"map": "prices"}),
)
async def size(x: Exchange) -> answers.MapSize:
    """How many entries live, how many have expired and wait for the evictor, what expires next, the maximum size."""
    name = x.path["map"]
    if x.namespace != x.door.settings.namespaces[0]:
        raise Forbidden("Maps have no namespace; use the service's first one, and a token of it.")
    if name.startswith(OURS):
        raise BadInput(f"map: a name that begins with {' or '.join(OURS)} is the inside of something else.")
    now = await x.client.map_cache(name, codec="bytes", policy=None).stats()
    return answers.MapSize(
        now.now, now.size, now.expired, now.next_expiry, now.max_size, now.mode, now.listened, now.keepers
    )
