"""A map cache as a dictionary: Python's operators and methods, one script each."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from redisson.mapcache.conftest import Maps
from tarry.clients.testing import Clock, TestClient


async def test_pop_removes_an_entry_once(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    await cache.put("tea", "4")
    assert await cache.pop("tea") == "4"
    assert await cache.size() == 0
    with pytest.raises(KeyError, match="tea"):
        await cache.pop("tea")
    assert await cache.pop("tea", "none") == "none"
    assert await cache.pop("tea", None) is None


async def test_pop_ignores_expired_entries(maps: Maps, clock: Clock, name: str) -> None:
    cache = maps.map(name)
    await cache.put("tea", "4", ttl="1m")
    clock.advance("2m")
    with pytest.raises(KeyError):
        await cache.pop("tea")


async def test_setdefault_puts_a_missing_entry(maps: Maps, clock: Clock, name: str) -> None:
    cache = maps.map(name)
    assert await cache.setdefault("tea", "4") == "4"
    assert await cache.setdefault("tea", "5") == "4"
    await cache.put("milk", "1", ttl="1m")
    assert await cache.setdefault("milk", "2") == "1"
    clock.advance("2m")
    assert await cache.setdefault("milk", "2") == "2"
    assert (await cache.get_all(["tea", "milk"])) == {"tea": "4", "milk": "2"}


@pytest.mark.parametrize("given", [{"tea": "4", "milk": "1"}, [("tea", "0"), ("tea", "4"), ("milk", "1")], iter([])])
async def test_update_takes_a_mapping_or_pairs(maps: Maps, name: str, given: Any) -> None:
    cache = maps.map(name)
    await cache.put("milk", "0")
    await cache.update(given)
    found = await cache.get_all(["tea", "milk"])
    assert found in ({"tea": "4", "milk": "1"}, {"milk": "0"})
    assert len(found) == await cache.size()


async def test_invalid_entries_write_nothing(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    with pytest.raises(tarry.BadInput):
        await cache.update({"tea": "4", "milk": None})
    with pytest.raises(tarry.BadInput):
        await cache.setdefault("tea", None)
    assert await cache.size() == 0


def test_a_blocking_map_works_like_a_dictionary(valkey_url: str, clock: Clock, name: str) -> None:
    client = TestClient(valkey_url, clock)
    cache = client.map_cache(name, codec="string", policy=None)
    cache.update({"tea": "4", "milk": "1"})
    assert (len(cache), "tea" in cache, sorted(cache)) == (2, True, ["milk", "tea"])
    assert dict(cache.items()) == {"tea": "4", "milk": "1"}
    assert cache.pop("tea") == "4"
    assert cache.setdefault("tea", "5") == cache["tea"] == "5"
    cache.clear()
    assert not cache
    client.close()
