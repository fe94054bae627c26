"""An evictor's step, taken by hand."""

from __future__ import annotations

from typing import Any

from tarry.clients.testing import TestClient
from tarry.verbs.redisson.mapcache.eviction import evict_step


def step(client: TestClient, name: str, me: bytes, stays: bool = True) -> Any:
    verbs = client.map_cache(name, policy=None).verbs
    return client.engine.run(evict_step(verbs.context, evictor_id=me, keeps_seat=stays))
