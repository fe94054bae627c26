"""Entries that are refused, and unusual ones that come back unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from redisson.mapcache.conftest import Maps
from tarry.clients.testing import Clock
from tarry.errors import BadInput, BodyError, ServerUnfit
from tarry.verbs.redisson.values import Opaque


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"key": None}, "key: it is None"),
        ({"value": None}, "value: it is None"),
        ({"ttl": 0}, "too short"),
        ({"ttl": -1}, "negative"),
        ({"max_idle": "0.1ms"}, "at least 1ms"),
        ({"ttl": "soon"}, "not a duration"),
        ({"ttl": 1, "keep_ttl": True}, "keep_ttl"),
    ],
)
async def test_a_bad_put_is_refused_and_nothing_is_written(
    cache: Any, server: Any, name: str, given: dict[str, Any], words: str
) -> None:
    put = {"key": "k", "value": "v"} | given
    with pytest.raises(BadInput, match=words):
        await cache.put(**put)
    assert server.keys(f"*{name}*") == []


async def test_invalid_values_are_refused(maps: Maps, cache: Any) -> None:
    for bad in (-1, 2.5, True, 2**31):
        with pytest.raises(BadInput, match="size"):
            await cache.set_max_size(bad)
    with pytest.raises(BadInput, match="LRU or LFU"):
        await cache.set_max_size(5, mode="FIFO")
    for options, words in (
        ({"backend": "disk"}, "backend"),
        ({"policy": "never"}, "policy"),
        ({"codec": "xml"}, "codec"),
    ):
        with pytest.raises(BadInput, match=words):
            maps.map("m", **options)
    with pytest.raises(BadInput, match="not empty"):
        maps.map("")
    with pytest.raises(BadInput, match="kind"):
        await cache.listen(print, "changed")


async def test_an_unreadable_value_raises_alone_and_is_shown_raw_in_iterators(
    maps: Maps, name: str, server: Any
) -> None:
    cache = maps.map(name, codec="kryo5")
    await cache.put("good", "1")
    server.hset(name, b"\x03\x82k", b"\x03")
    with pytest.raises(BodyError):
        await cache.get("k")
    items = dict(await maps.listed(cache, "items"))
    assert items == {"good": "1", "k": Opaque(b"\x03")}
    assert await cache.fast_remove("k") == 1


async def test_keys_of_another_type_raise_server_unfit(cache: Any, server: Any, name: str) -> None:
    server.set(name, "text")
    with pytest.raises(ServerUnfit, match="WRONGTYPE"):
        await cache.put("a", "1")
    with pytest.raises(ServerUnfit, match="WRONGTYPE"):
        await cache.get("a")


async def test_big_values_and_strange_keys_round_trip(maps: Maps, name: str) -> None:
    cache = maps.map(name, codec="bytes")
    for key in (b"", b"\0" * 20, b"redisson__expiretag", b"temp_val__redisson", b"~me", bytes(range(256))):
        await cache.put(key, key + b"!", ttl=60)
        assert await cache.get(key) == key + b"!"
    big = bytes(3_000_000)
    await cache.put_all({b"1": big, b"2": big})
    assert await cache.get_all([b"1", b"2"]) == {b"1": big, b"2": big}


async def test_an_absurd_idle_time_is_ignored(cache: Any, server: Any, name: str, clock: Clock) -> None:
    for head in (b"\xff" * 8, b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf0\xbf"):  # NaN, infinity, -1
        server.hset(name, "k", head + b"\1\0\0\0\0\0\0\0v")
        assert await cache.get("k") == "v"
        clock.advance("1d")
    assert await cache.evict() == 0


@pytest.mark.slow
async def test_many_large_values_are_handled_in_several_steps(maps: Maps, name: str, clock: Clock) -> None:
    cache = maps.map(name, codec="bytes", key_codec="string")
    large = {f"k{i}": bytes([i]) * 1_500_000 for i in range(8)}
    await cache.put_all(large, max_idle=5)
    assert await cache.get_all(large) == large
    assert await cache.expire_entries(large, max_idle=10) == 8
    clock.advance(10)
    assert await cache.size() == 0
    await cache.put_all(large)
    assert await cache.fast_remove(*large) == 8
