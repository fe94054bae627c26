"""Known bugs of Redisson (M1 to M6, all seen with 4.7.0), and the behaviour here."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tarry.clients.testing import Clock
from tarry.verbs.redisson.entries import EntryEvent, unpack_event
from tarry.verbs.redisson.mapcache.eviction import MOST

Published = Callable[[], list[tuple[str, bytes]]]


async def test_m1_one_call_evicts_everything_that_has_expired(cache: Any, clock: Clock) -> None:
    await cache.put_all({f"k{i}": "" for i in range(2500)}, ttl=1)
    clock.advance(1)
    assert await cache.evict() == 2500 > 4 * int(MOST)


async def test_m2_every_evicted_entry_is_published_once(cache: Any, clock: Clock, published: Published) -> None:
    await cache.put_all({f"t{i}": "x" for i in range(700)}, ttl=1)
    await cache.put_all({f"i{i}": "y" for i in range(700)}, max_idle=1)
    await cache.put_all({f"b{i}": "z" for i in range(700)}, max_idle=1, ttl=1)
    published()
    clock.advance(2)
    assert await cache.evict() == 2100
    told = [unpack_event(message) for kind, message in published() if kind == "expired"]
    assert len(told) == 2100
    assert {event.key for event in told if isinstance(event, EntryEvent)} == {
        b"%s%d" % (kind, i) for kind in (b"t", b"i", b"b") for i in range(700)
    }
    assert await cache.evict() == 0


@pytest.mark.slow
async def test_m4_many_entries_are_evicted_in_steps(cache: Any, clock: Clock, server: Any) -> None:
    await cache.put_all({f"k{i}": "" for i in range(5_000)}, ttl=1)
    clock.advance(1)
    before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert await cache.evict() == 5_000
    steps = server.info("commandstats")["cmdstat_evalsha"]["calls"] - before
    assert steps >= 5_000 / int(MOST)


async def test_m5_entries_older_than_the_maximum_size_count(cache: Any, clock: Clock, server: Any, name: str) -> None:
    await cache.put_all({"a": "1", "b": "2", "c": "3"})
    await cache.set_max_size(2)
    assert await cache.size() == 2
    server.hset(name, "java", struct.pack("<dQ", 0, 1) + b"j")  # written by somebody who counts no accesses
    await cache.evict()
    assert server.hlen(name) == 2


async def test_m5_evicted_entries_leave_no_access_records(cache: Any, clock: Clock, server: Any, name: str) -> None:
    await cache.set_max_size(100)
    await cache.put_all({f"k{i}": "" for i in range(10)}, ttl=1)
    await cache.set_max_size(0)
    clock.advance(1)
    await cache.evict()
    assert not server.exists(f"redisson__map_cache__last_access__set:{{{name}}}")


async def test_m6_a_put_if_absent_leaves_an_existing_entry_alone(cache: Any, clock: Clock) -> None:
    await cache.put("for ever", "1")
    await cache.put("an hour", "2", ttl="1h")
    for key in ("for ever", "an hour"):
        await cache.put_if_absent(key, "x", ttl=10)
        await cache.fast_put_if_absent(key, "x", max_idle=10)
    clock.advance(20)
    assert await cache.evict() == 0
    assert await cache.get_all(["for ever", "an hour"]) == {"for ever": "1", "an hour": "2"}


async def test_m6_a_idle_times_spoiled_by_java_are_repaired(cache: Any, clock: Clock, server: Any, name: str) -> None:
    await cache.put("tea", "green")
    idles = f"redisson__idle__set:{{{name}}}"
    server.zadd(idles, {"tea": clock.us // 1000})
    clock.advance(1)
    assert await cache.size() == 1
    assert await cache.evict() == 0
    assert await cache.get("tea") == "green"
    assert not server.exists(idles)


async def test_m6_b_updating_a_full_map_evicts_nothing(cache: Any, clock: Clock) -> None:
    await cache.set_max_size(2)
    await cache.put("a", "1", ttl=60)
    await cache.put("b", "2", ttl=60)
    for key in "abab":
        clock.advance("1ms")
        await cache.put(key, "new", ttl=60)
        assert (await cache.get_all("ab")).keys() == {"a", "b"}
        assert await cache.get(key) == "new"


async def test_m6_c_a_sum_over_an_expired_entry_starts_again_and_is_visible(cache: Any, clock: Clock) -> None:
    await cache.put("n", "40", ttl=1)
    clock.advance(2)
    assert await cache.add_and_get("n", 2) == 2
    assert await cache.get("n") == "2"
    assert await cache.remaining_ttl("n") == timedelta.max


async def test_m6_d_put_if_absent_over_an_expired_entry_is_visible(cache: Any, clock: Clock) -> None:
    for put in (cache.put_if_absent, cache.fast_put_if_absent):
        await cache.put("tea", "green", ttl=1, max_idle=1)
        clock.advance(2)
        assert not await put("tea", "black") or put is not cache.put_if_absent
        assert await cache.get("tea") == "black"
        assert await cache.evict() == 0
        await cache.remove("tea")


async def test_m6_e_all_puts_treat_the_ttl_alike(cache: Any) -> None:
    async def put_all(key: str, value: str, **options: Any) -> None:
        await cache.put_all({key: value}, **options)

    for put in (cache.put, cache.fast_put, put_all):
        await cache.put("tea", "green", ttl=10)
        await put("tea", "black")
        assert await cache.remaining_ttl("tea") == timedelta.max
        await cache.put("tea", "green", ttl=10)
        await put("tea", "black", keep_ttl=True)
        assert await cache.remaining_ttl("tea") == timedelta(seconds=10)


async def test_m6_f_expire_if_not_set_does_not_expire_the_map_at_once(cache: Any, server: Any, name: str) -> None:
    await cache.put("tea", "green")
    assert await cache.expire("10m", if_not_set=True) is True
    assert await cache.get("tea") == "green"
    assert 599_000 < server.pttl(name) <= 600_000


async def test_events_are_published_as_redisson_does(cache: Any, clock: Clock, published: Published) -> None:
    await cache.put("a", "1", ttl=5)
    await cache.replace("a", "2")
    await cache.remove("a")
    await cache.put("b", "1", max_idle=5)
    clock.advance(6)
    await cache.put("b", "2")  # over one that has expired: a new one
    await cache.expire_entry("b", ttl=1)
    clock.advance(1)
    assert await cache.fast_remove("b") == 0
    await cache.evict()
    assert [(kind, unpack_event(message, updated=kind == "updated")) for kind, message in published()] == [
        ("created", EntryEvent(b"a", b"1")),
        ("updated", EntryEvent(b"a", b"2", b"1")),
        ("removed", EntryEvent(b"a", b"2")),
        ("created", EntryEvent(b"b", b"1")),
        ("created", EntryEvent(b"b", b"2")),
        ("expired", EntryEvent(b"b", b"2")),
    ]


async def test_without_listeners_only_expirations_are_published(
    cache: Any, clock: Clock, published: Published, server: Any, name: str
) -> None:
    server.hdel(f"{{{name}}}:redisson_options", "has-listeners")
    await cache.put("a", "1", ttl=5)
    await cache.put("a", "2", ttl=5)
    clock.advance(5)
    await cache.evict()
    assert [kind for kind, _ in published()] == ["expired"]
