"""A map cache over HTTP: looking at it, and nothing more."""

from __future__ import annotations

import time

import httpx

import tarry
from service.served import Api, Served, serve
from tarry.clients.aio.client import AsyncClient
from tarry.programs.service.settings import Settings


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


def test_the_metrics_tell_of_maps_that_the_service_was_told_of(valkey_url: str, namespace: str) -> None:
    name = f"map-{namespace}"
    with tarry.Client(valkey_url) as client:
        client.map_cache(name, codec="string", policy=None).put("tea", "green", ttl="1h")
    settings = Settings(map_caches=(name,))
    with serve(lambda served: AsyncClient(valkey_url, namespace=served), settings) as running:
        text = httpx.get(f"{running.url}/metrics").text
    assert f'tarry_map_cache_entries{{map="{name}",state="live"}} 1.0' in text
    assert f'tarry_map_cache_keepers{{map="{name}"}} 0.0' in text
    assert "tarry_http_request_seconds" in text
