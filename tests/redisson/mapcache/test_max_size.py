"""Maps that keep to a maximum size."""

from __future__ import annotations

from typing import Any

from tarry.clients.testing import Clock


async def test_clear_keeps_the_maximum_size(cache: Any) -> None:
    assert await cache.clear() is False
    await cache.set_max_size(2)
    await cache.put("tea", "green", ttl=5)
    assert await cache.clear() is True
    assert await cache.size() == 0
    assert (await cache.stats()).max_size == 2


async def test_lru_evicts_the_least_recently_used_entry(cache: Any, clock: Clock) -> None:
    await cache.set_max_size(2)
    await cache.put("a", "1")
    clock.advance("1ms")
    await cache.put("b", "2")
    clock.advance("1ms")
    await cache.get("a")
    clock.advance("1ms")
    await cache.put("c", "3", ttl=60)
    assert await cache.get_all("abc") == {"a": "1", "c": "3"}


async def test_lfu_evicts_the_least_frequently_used_entry(cache: Any) -> None:
    assert await cache.try_set_max_size(2, mode="LFU") is True
    await cache.put("a", "1")
    await cache.put("b", "2")
    for _ in range(3):
        await cache.get("a")
    await cache.get("b")
    await cache.put("c", "3")
    assert await cache.get_all("abc") == {"a": "1", "c": "3"}


async def test_try_set_max_size_sets_it_only_once(cache: Any) -> None:
    assert await cache.try_set_max_size(2) is True
    assert await cache.try_set_max_size(3) is False
    assert (await cache.stats()).max_size == 2
    await cache.set_max_size(0)
    assert (await cache.stats()).max_size is None


async def test_expired_entries_are_evicted_first(cache: Any, clock: Clock) -> None:
    await cache.set_max_size(2)
    await cache.put("old", "1")
    await cache.put("gone", "2", ttl=1)
    clock.advance(2)
    await cache.put("new", "3")
    assert await cache.get_all(["old", "new"]) == {"old": "1", "new": "3"}


async def test_a_full_map_shrinks_to_its_new_size(cache: Any, clock: Clock) -> None:
    await cache.put_all({f"k{i:03}": "" for i in range(700)})
    await cache.set_max_size(700)
    clock.advance(1)
    await cache.get("k500")
    await cache.set_max_size(1)
    assert await cache.size() == 1
    assert await cache.contains_key("k500")
