"""A map cache as a dictionary: Python's operators and methods."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any

import pytest

import tarry
from redisson.mapcache.conftest import Maps
from tarry.clients.testing import Clock, TestClient


async def test_pop_removes_an_entry_once(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    await cache.put("tea", "4")
    assert await entries.pop("tea") == "4"
    assert await cache.size() == 0
    with pytest.raises(KeyError, match="tea"):
        await entries.pop("tea")
    assert await entries.pop("tea", "none") == "none"
    assert await entries.pop("tea", None) is None


async def test_pop_ignores_expired_entries(maps: Maps, clock: Clock, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    await cache.put("tea", "4", ttl="1m")
    clock.advance("2m")
    with pytest.raises(KeyError):
        await entries.pop("tea")


async def test_setdefault_puts_a_missing_entry(maps: Maps, clock: Clock, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    assert await entries.setdefault("tea", "4") == "4"
    assert await entries.setdefault("tea", "5") == "4"
    await cache.put("milk", "1", ttl="1m")
    assert await entries.setdefault("milk", "2") == "1"
    clock.advance("2m")
    assert await entries.setdefault("milk", "2") == "2"
    assert (await cache.get_all(["tea", "milk"])) == {"tea": "4", "milk": "2"}


@pytest.mark.parametrize("given", [{"tea": "4", "milk": "1"}, [("tea", "0"), ("tea", "4"), ("milk", "1")], iter([])])
async def test_update_takes_a_mapping_or_pairs(maps: Maps, name: str, given: Any) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    await cache.put("milk", "0")
    await entries.update(given)
    found = await cache.get_all(["tea", "milk"])
    assert found in ({"tea": "4", "milk": "1"}, {"milk": "0"})
    assert len(found) == await cache.size()


async def test_invalid_entries_write_nothing(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    with pytest.raises(tarry.BadInput):
        await entries.update({"tea": "4", "milk": None})
    with pytest.raises(tarry.BadInput):
        await entries.setdefault("tea", None)
    with pytest.raises(tarry.BadInput):
        await entries.setdefault("tea")
    assert await cache.size() == 0


async def test_update_takes_keywords(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    await maps.as_dict(cache).update({"tea": "3"}, tea="4", entries="1")
    await maps.as_dict(cache).update(milk="2")
    assert await cache.get_all(["tea", "entries", "milk"]) == {"tea": "4", "entries": "1", "milk": "2"}


async def test_get_has_a_default(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    assert await entries.get("tea") is None
    assert await entries.get("tea", "none") == "none"
    await cache.put("tea", "4")
    assert await entries.get("tea", "none") == "4"


async def test_popitem_removes_each_entry_once(maps: Maps, clock: Clock, name: str) -> None:
    cache = maps.map(name)
    entries = maps.as_dict(cache)
    await cache.put_all({"tea": "4", "milk": "1"})
    await cache.put("old", "0", ttl="1m")
    clock.advance("2m")
    assert {await entries.popitem(), await entries.popitem()} == {("tea", "4"), ("milk", "1")}
    with pytest.raises(KeyError, match="empty"):
        await entries.popitem()


async def test_clear_removes_all(maps: Maps, name: str) -> None:
    cache = maps.map(name)
    await cache.put_all({"tea": "4", "milk": "1"})
    await maps.as_dict(cache).clear()
    assert await cache.size() == 0


@pytest.fixture
def prices(valkey_url: str, clock: Clock, name: str) -> Iterator[tarry.redisson.MapCache[str, str]]:
    with TestClient(valkey_url, clock) as client:
        yield client.map_cache(name, codec="string", policy=None)


def test_a_blocking_map_is_a_mutable_mapping(prices: tarry.redisson.MapCache[str, str]) -> None:
    entries = prices.as_dict()
    assert isinstance(entries, MutableMapping)
    entries.update({"tea": "4", "milk": "1"})
    assert (len(entries), "tea" in entries, sorted(entries)) == (2, True, ["milk", "tea"])
    assert dict(entries.items()) == {"tea": "4", "milk": "1"} == entries
    assert entries != {"tea": "4"}
    assert entries.pop("tea") == "4"
    assert entries.setdefault("tea", "5") == entries["tea"] == "5"
    entries["tea"] = "6"
    del entries["milk"]
    assert prices.get_all(["tea", "milk"]) == {"tea": "6"}, "the same entries"
    with pytest.raises(KeyError):
        del entries["milk"]
    with pytest.raises(KeyError):
        entries["milk"]
    entries.clear()
    assert not entries


def test_the_views_of_a_blocking_map_are_those_of_a_dictionary(prices: tarry.redisson.MapCache[str, str]) -> None:
    entries = prices.as_dict()
    keys, values, items = entries.keys(), entries.values(), entries.items()
    assert isinstance(keys, KeysView)
    assert isinstance(values, ValuesView)
    assert isinstance(items, ItemsView)
    prices.put_all({"tea": "4", "milk": "1"})
    assert (len(keys), len(values), len(items)) == (2, 2, 2), "they see what was put later"
    assert sorted(values) == sorted(values) == ["1", "4"], "and are read again"
    assert keys & {"tea", "coffee"} == {"tea"}
    assert ("tea" in keys, "4" in values, "5" in values) == (True, True, False)
    assert (("tea", "4") in items, ("tea", "5") in items, ("coffee", "5") in items) == (True, False, False)


def test_items_are_read_a_page_at_a_time_and_are_no_use(
    prices: tarry.redisson.MapCache[str, str], clock: Clock
) -> None:
    prices.put_all({f"k{number}": "1" for number in range(100)}, max_idle=10)
    clock.advance(6)
    assert len(list(prices.as_dict().items())) == 100
    clock.advance(6)
    assert list(prices.as_dict().values()) == []


def test_the_map_itself_has_no_operators(prices: tarry.redisson.MapCache[str, str]) -> None:
    cache: Any = prices
    with pytest.raises(TypeError, match="has no len"):
        len(cache)
    with pytest.raises(TypeError, match="not iterable"):
        assert "tea" in cache
    with pytest.raises(TypeError, match="not iterable"):
        iter(cache)
    with pytest.raises(TypeError, match="not subscriptable"):
        cache["tea"]
    for name in ("keys", "values", "items", "pop", "popitem", "setdefault", "update", "contains"):
        assert not hasattr(cache, name)
        assert not hasattr(tarry.redisson.AsyncMapCache, name)


async def test_an_awaited_map_has_no_operators(maps: Maps, name: str) -> None:
    entries: Any = maps.as_dict(maps.map(name))
    if isinstance(entries, tarry.redisson.AsyncMapDict):
        with pytest.raises(TypeError, match="has no len"):
            len(entries)
        with pytest.raises(TypeError, match="not subscriptable"):
            entries["tea"]
        assert not isinstance(entries, MutableMapping)
