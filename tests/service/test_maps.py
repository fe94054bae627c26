"""A map cache over HTTP: looking at it, and nothing more."""

from __future__ import annotations

import time

import tarry
from service.served import Api, Served


def test_a_map_is_counted_and_not_touched(served: Served, valkey_url: str, namespace: str) -> None:
    api = Api(served.url, "default")
    name = f"map-{namespace}"
    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        cache.set_max_size(100, mode="LFU")
        cache.put("tea", "green", ttl="1h")
        cache.put("gone", "x", ttl="1ms")
        time.sleep(0.002)
        told = api.get(f"/v1/map-caches/{name}")
        stats = cache.stats()
    assert (told["size"], told["expired"], told["max_size"], told["mode"]) == (1, 1, 100, "LFU")
    assert (told["listened"], told["keepers"]) == (False, 0)
    assert told["next_expiry"][:19] == stats.next_expiry.isoformat()[:19]  # type: ignore[union-attr]
    api.http.close()


def test_the_inside_of_something_else_is_refused(served: Served, api: Api) -> None:
    default = Api(served.url, "default")
    assert default.refused("GET", "/v1/map-caches/redisson__idle__set:x") == (400, "bad_input")
    assert api.refused("GET", "/v1/map-caches/prices")[0] == 403, "maps have no namespace"
    default.http.close()
