"""Waiting for what an evictor does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tarry.clients.testing import TestClient
from tarry.verbs.mapcache.evicting import evict_step


def until(true: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def step(client: TestClient, name: str, me: bytes, stays: bool = True) -> Any:
    verbs = client.map_cache(name, policy=None)._verbs
    return client.engine.run(evict_step(verbs.desk, me=me, stays=stays))
