"""A map cache over HTTP: looking at it, and nothing more."""

from __future__ import annotations

import time

import httpx

import tarry
from service.running_service import Api, RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service.settings import ServiceSettings


def test_a_map_is_shown_without_counting_as_use(
    running_service: RunningService, valkey_url: str, namespace: str
) -> None:
    api = Api(running_service.url, "default")
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
    assert (told["listened"], told["evictors"]) == (False, 0)
    assert told["next_expiry"][:19] == stats.next_expiry.isoformat()[:19]  # type: ignore[union-attr]
    api.http.close()


def test_entries_are_shown_decoded_by_their_codecs(
    running_service: RunningService, valkey_url: str, namespace: str
) -> None:
    api, name = Api(running_service.url, "default"), f"map-{namespace}"
    path = f"/v1/map-caches/{name}"
    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="kryo5", key_codec="string", policy=None)
        cache.put("tea", {"price": 3}, ttl="1h")
        cache.put("milk", [1, None])
    codecs = {"codec": "kryo5", "key_codec": "string"}
    shown = api.get(f"{path}/entries", **codecs)
    assert sorted((one["key"], one["value"]) for one in shown["entries"]) == [
        ("milk", [1, None]),
        ("tea", {"price": 3}),
    ]
    assert "cursor" not in shown
    tea, milk, coffee = api.post(f"{path}/look", {"keys": ["tea", "milk", "coffee"], **codecs})["entries"]
    assert (tea["there"], tea["value"], 0 < tea["remaining_ms"] <= 3_600_000) == (True, {"price": 3}, True)
    assert (milk, coffee) == ({"there": True, "value": [1, None], "remaining_ms": None}, {"there": False})
    unread = api.post(f"{path}/look", {"keys": ["tea"], "codec": "long", "key_codec": "string"})["entries"][0]
    assert isinstance(unread["value"], str), "what the codec cannot read is base64 text"
    for cursor in ("x", "99999999999999999999", "-1", "\u0663"):
        assert api.refused("GET", f"{path}/entries", params={"namespace": "default", "cursor": cursor}) == (
            400,
            "bad_input",
        )
    assert api.refused("POST", f"{path}/look", {"keys": ["?"], "codec": "bytes"}) == (400, "bad_input")
    api.http.close()


def test_a_native_map_is_of_the_namespace_of_the_request(
    running_service: RunningService, api: Api, valkey_url: str, namespace: str
) -> None:
    path = "/v1/map-caches/prices"
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.map_cache("prices", codec="json", backend="native").put("tea", 3, ttl="1h")
    query = {"codec": "json", "backend": "native"}
    assert api.get(f"{path}/entries", **query)["entries"] == [{"key": "tea", "value": 3}]
    (tea,) = api.post(f"{path}/look", {"keys": ["tea"], **query})["entries"]
    assert (tea["value"], 0 < tea["remaining_ms"] <= 3_600_000) == (3, True)
    default = Api(running_service.url, "default")
    assert default.get(f"{path}/entries", **query)["entries"] == []
    with tarry.HTTPClient(running_service.url, namespace=namespace) as far:
        assert dict(far.map_cache("prices", codec="json", backend="native").as_dict().items()) == {"tea": 3}
    default.http.close()


def test_internal_keys_of_a_map_are_refused(running_service: RunningService, api: Api) -> None:
    default = Api(running_service.url, "default")
    assert default.refused("GET", "/v1/map-caches/redisson__idle__set:x") == (400, "bad_input")
    assert api.refused("GET", "/v1/map-caches/prices")[0] == 403, "maps have no namespace"
    default.http.close()


def test_metrics_cover_the_configured_maps(valkey_url: str, namespace: str) -> None:
    name = f"map-{namespace}"
    with tarry.Client(valkey_url) as client:
        client.map_cache(name, codec="string", policy=None).put("tea", "green", ttl="1h")
    settings = ServiceSettings(map_caches=(name,))
    with serve(lambda running_service: AsyncClient(valkey_url, namespace=running_service), settings) as running:
        text = httpx.get(f"{running.url}/metrics").text
    assert f'tarry_map_cache_entries{{map="{name}",state="live"}} 1.0' in text
    assert f'tarry_map_cache_evictors{{map="{name}"}} 0.0' in text
    assert "tarry_http_request_seconds" in text
