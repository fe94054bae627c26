"""A map cache: times to live, results of puts and removals, sums, iterators, sizes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from redisson.mapcache.conftest import Maps
from tarry.clients.testing import Clock
from tarry.errors import BadInput


async def test_an_entry_lives_for_its_ttl(cache: Any, clock: Clock) -> None:
    assert await cache.put("tea", "green", ttl="10s") is None
    clock.advance("9.999s")
    assert await cache.get("tea") == "green"
    clock.advance("1ms")
    assert await cache.get("tea") is None
    assert not await cache.contains_key("tea")
    assert await cache.get_all(["tea"]) == {}
    assert await cache.remaining_ttl("tea") is None
    assert await cache.size() == 0


async def test_an_idle_entry_expires_and_a_used_one_stays(cache: Any, clock: Clock) -> None:
    await cache.put("tea", "green", max_idle=10)
    for _ in range(3):
        clock.advance(9)
        assert await cache.get("tea") == "green"
    clock.advance(9)
    assert await cache.contains_key("tea")
    clock.advance(10)
    assert await cache.get("tea") is None
    await cache.put("tea", "green", max_idle="1ms")
    clock.advance("1ms")
    assert await cache.get("tea") is None


async def test_the_shorter_of_ttl_and_idle_time_counts(cache: Any, clock: Clock) -> None:
    await cache.put("tea", "green", ttl=15, max_idle=10)
    assert await cache.remaining_ttl("tea") == timedelta(seconds=10)
    clock.advance(9)
    assert await cache.get("tea") == "green"
    assert await cache.remaining_ttl("tea") == timedelta(seconds=6)


async def test_get_with_ttl_only_does_not_count_as_use(cache: Any, clock: Clock) -> None:
    await cache.put("tea", "green", ttl=30, max_idle=10)
    clock.advance(9)
    assert await cache.get_with_ttl_only("tea") == "green"
    clock.advance(1)
    assert await cache.get("tea") is None
    assert await cache.get_with_ttl_only("tea") == "green"
    clock.advance(20)
    assert await cache.get_with_ttl_only("tea") is None


async def test_a_put_sets_keeps_or_clears_the_ttl(cache: Any, clock: Clock) -> None:
    for put in (cache.put, cache.fast_put):
        await put("tea", "green", ttl=10, max_idle=8)
        await put("tea", "black", keep_ttl=True)
        assert await cache.remaining_ttl("tea") == timedelta(seconds=8)
        await put("tea", "white")
        assert await cache.remaining_ttl("tea") == timedelta.max
    await cache.put("tea", "green", ttl=10)
    await cache.put_all({"tea": "black", "coffee": "black"}, keep_ttl=True)
    assert await cache.remaining_ttl("tea") == timedelta(seconds=10)
    await cache.put_all({"tea": "black"})
    assert await cache.remaining_ttl("tea") == timedelta.max
    clock.advance("1h")
    assert await cache.get_all(["tea", "coffee", "milk"]) == {"tea": "black", "coffee": "black"}


async def test_puts_return_the_previous_value(cache: Any) -> None:
    assert await cache.put("tea", "green") is None
    assert await cache.put("tea", "black") == "green"
    assert await cache.fast_put("tea", "white") is False
    assert await cache.fast_put("coffee", "black") is True
    assert await cache.put_if_absent("tea", "red") == "white"
    assert await cache.put_if_absent("milk", "cold") is None
    assert await cache.fast_put_if_absent("milk", "hot") is False
    assert await cache.fast_put_if_absent("water", "hot") is True
    assert await cache.get("tea") == "white"


async def test_a_replaced_entry_keeps_its_ttl(cache: Any, clock: Clock) -> None:
    assert await cache.replace("tea", "green") is None
    assert not await cache.contains_key("tea")
    await cache.put("tea", "green", ttl=20, max_idle=10)
    clock.advance(9)
    assert await cache.replace("tea", "black") == "green"
    assert await cache.remaining_ttl("tea") == timedelta(seconds=10)
    assert await cache.replace("tea", "green", "white") is False
    assert await cache.replace("tea", "black", "white") is True
    assert await cache.get("tea") == "white"
    assert await cache.remaining_ttl("tea") == timedelta(seconds=10)


async def test_removals_return_the_previous_value(cache: Any) -> None:
    await cache.put_all({"a": "1", "b": "2", "c": "3"})
    assert await cache.remove("a") == "1"
    assert await cache.remove("a") is None
    assert await cache.remove("b", "1") is False
    assert await cache.remove("b", "2") is True
    assert await cache.fast_remove("b", "c", "d") == 1
    assert await cache.size() == 0


async def test_sums_stay_exact(maps: Maps, name: str) -> None:
    numbers = maps.map(name, codec="long", key_codec="string")
    assert await numbers.add_and_get("n", 2**53) == 2**53
    assert await numbers.add_and_get("n", 1) == 2**53 + 1
    assert await numbers.get("n") == 2**53 + 1
    assert await numbers.add_and_get("n", -(2**53) - 1) == 0
    await numbers.put("m", 2**63 - 1)
    with pytest.raises(BadInput, match="64 bits"):
        await numbers.add_and_get("m", 1)
    assert await numbers.get("m") == 2**63 - 1
    texts = maps.map(name + "t", codec="json")
    assert await texts.add_and_get("x", 0.5) == 0.5
    assert await texts.add_and_get("x", 1) == 1.5
    await texts.put("y", "seven")
    with pytest.raises(BadInput, match="not a number"):
        await texts.add_and_get("y", 1)
    assert sorted(await maps.listed(texts, "keys")) == ["x", "y"]
    with pytest.raises(BadInput, match="as text"):
        await maps.map(name, codec="kryo5").add_and_get("n", 1)
    for bad in ("1", True, None):
        with pytest.raises(BadInput, match="not a number"):
            await numbers.add_and_get("n", bad)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(BadInput, match="not finite"):
            await numbers.add_and_get("n", bad)
    with pytest.raises(BadInput, match="64 bits"):
        await numbers.add_and_get("n", 2**64)


async def test_add_and_get_keeps_the_ttl(cache: Any, clock: Clock) -> None:
    await cache.put("n", "1", ttl=10, max_idle=8)
    clock.advance(7)
    assert await cache.add_and_get("n", 1) == 2
    assert await cache.remaining_ttl("n") == timedelta(seconds=3)


async def test_expire_entry_changes_the_ttl(cache: Any, clock: Clock) -> None:
    assert await cache.expire_entry("tea", ttl=5) is False
    await cache.put("tea", "green")
    assert await cache.expire_entry("tea", ttl=10, max_idle=5) is True
    assert await cache.remaining_ttl("tea") == timedelta(seconds=5)
    assert await cache.expire_entry("tea", ttl=60, if_not_set=True) is False
    assert await cache.expire_entry("tea") is True
    assert await cache.remaining_ttl("tea") == timedelta.max
    assert await cache.expire_entry("tea", ttl=60, if_not_set=True) is True
    await cache.put("coffee", "black")
    assert await cache.expire_entries(["tea", "coffee", "milk"], ttl=1) == 2
    clock.advance(1)
    assert await cache.size() == 0


async def test_iterators_skip_expired_entries(maps: Maps, cache: Any, clock: Clock) -> None:
    await cache.put_all({f"k{i:04}": f"v{i}" for i in range(1500)}, ttl=10)
    await cache.put_all({f"i{i:04}": f"v{i}" for i in range(500)}, max_idle=20)
    assert sorted(await maps.listed(cache, "keys")) == [f"i{i:04}" for i in range(500)] + [
        f"k{i:04}" for i in range(1500)
    ]
    assert len(await maps.listed(cache, "values")) == 2000
    assert dict(await maps.listed(cache, "items"))["k0700"] == "v700"
    assert await cache.contains_value("v1400")
    clock.advance(10)
    assert sorted(await maps.listed(cache, "keys")) == [f"i{i:04}" for i in range(500)]
    assert not await cache.contains_value("v1400")
    assert await cache.size() == 500
    clock.advance(10)
    assert await maps.listed(cache, "items") == []


async def test_the_size_excludes_expired_entries(cache: Any, clock: Clock) -> None:
    await cache.put_all({f"both{i}": "" for i in range(900)}, ttl=10, max_idle=5)
    await cache.put_all({f"stays{i}": "" for i in range(30)})
    clock.advance(7)
    assert await cache.size() == 30
    await cache.put_all({f"ttl{i}": "" for i in range(900)}, ttl=1)
    clock.advance(5)
    assert await cache.size() == 30


async def test_stats_do_not_count_as_use(cache: Any, clock: Clock, server: Any, name: str) -> None:
    await cache.put("tea", "green", ttl=10)
    await cache.put("milk", "cold", max_idle=20)
    await cache.put("water", "hot")
    clock.advance(12)
    await cache.set_max_size(50, mode="LFU")
    before = server.hgetall(name)
    stats = await cache.stats()
    assert (stats.name, stats.size, stats.expired, stats.max_size, stats.mode) == (name, 2, 1, 50, "LFU")
    assert stats.next_expiry - stats.now == timedelta(seconds=8)
    assert stats.listened is False
    assert server.hgetall(name) == before


async def test_expire_applies_to_the_whole_map(cache: Any, server: Any, name: str) -> None:
    assert await cache.expire(600) is False
    await cache.put("tea", "green", ttl=5)
    assert await cache.expire("10m") is True
    keys = [name, f"redisson__timeout__set:{{{name}}}", f"redisson__idle__set:{{{name}}}"]
    assert all(599_000 < server.pttl(key) <= 600_000 for key in keys)
    assert await cache.size() == 1
    assert await cache.expire("20m", if_not_set=True) is False
    assert await cache.clear_expire() is True
    assert [server.pttl(key) for key in keys[:2]] == [-1, -1]
    assert not server.exists(keys[2])
    assert await cache.clear_expire() is False
