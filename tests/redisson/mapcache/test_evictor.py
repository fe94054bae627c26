"""Evictors in processes of their own: expired entries go by themselves, once and soon."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tarry
from redisson.mapcache.conftest import Maps
from redisson.mapcache.evictor_step import step
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson.mapcache.eviction import AdaptivePolicy
from tarry.verbs.redisson.mapcache.map_values import MapEvent
from until import until
from warm import WarmTarry


class Threads:
    """Those that have begun since, and live."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    @property
    def names(self) -> list[str]:
        return sorted(thread.name for thread in set(threading.enumerate()) - self._before)


@pytest.fixture
def clients(valkey_url: str) -> Iterator[Callable[[], tarry.Client]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(tarry.Client(valkey_url))


def test_expired_entries_are_evicted_automatically_once_and_soon(clients: Any, name: str, server: Any) -> None:
    maps = [clients().map_cache(name, codec="string") for _ in range(5)]
    told: list[MapEvent[str, str]] = []
    maps[0].listen(told.append, "expired")
    for i in range(100):
        maps[i % 5].put(str(i), "x", ttl="50ms" if i % 2 else None, max_idle=None if i % 2 else "60ms")
    until(lambda: len(told) >= 100, "all are told of")
    assert server.hlen(name) == 0
    until(lambda: maps[0].stats().evictors == 2, "the evictor and its deputy")
    assert sorted(int(event.key) for event in told) == list(range(100))


def test_many_maps_share_one_evictor_thread(clients: Any, name: str) -> None:
    client = clients()
    threads = Threads()
    maps = [client.map_cache(f"{name}-{i}", codec="string") for i in range(50)]
    for each in maps:
        each.put("a", "1", ttl="30ms")
    assert threads.names == ["tarry-duties", "tarry-subscriptions"]
    for each in maps:
        until(lambda each=each: each.stats().expired + each.stats().size == 0, "evicted")


def test_a_garbage_collected_handle_leaves_nothing_behind(clients: Any, name: str, server: Any) -> None:
    client = clients()
    threads = Threads()
    cache = client.map_cache(name, codec="string")
    second = client.map_cache(name, codec="string")
    cache.put("a", "1")
    second.get("a")
    until(lambda: server.exists(f"tarry:shared:{{{name}}}:evictors"), "it is kept")
    second.close()
    del cache
    gc.collect()
    until(lambda: not server.exists(f"tarry:shared:{{{name}}}:evictors"), "the seat is free")
    until(lambda: not threads.names, "the threads have ended")
    assert second.get("a") == "1"
    until(lambda: server.exists(f"tarry:shared:{{{name}}}:evictors"), "a verb starts it again")


def test_eviction_survives_cut_connections(clients: Any, name: str, server: Any) -> None:
    cache = clients().map_cache(name, codec="string")
    cache.put("a", "1")
    until(lambda: server.zcard(f"tarry:shared:{{{name}}}:evictors"), "it is kept")
    mine = server.client_id()
    for number in [client["id"] for client in server.client_list() if client["id"] != str(mine)]:
        server.client_kill_filter(_id=number)
    cache.put("b", "1", ttl="20ms")
    until(lambda: server.hlen(name) == 1, "evicted")


def test_a_handle_without_a_policy_does_not_evict(clients: Any, name: str, server: Any) -> None:
    client = clients()
    threads = Threads()
    client.map_cache(name, codec="string", policy=None).put("a", "1", ttl="1ms")
    assert not threads.names
    assert server.hlen(name) == 1


@pytest.mark.slow
def test_the_adaptive_policy_takes_redissons_latch(clients: Any, name: str, server: Any) -> None:
    cache = clients().map_cache(name, codec="string", policy=AdaptivePolicy(minimum=1, amount=2))
    cache.put_all({str(i): "x" for i in range(5)}, ttl="1ms")
    until(lambda: server.hlen(name) == 3, "two are gone, as many as may be")
    assert server.get(f"redisson__execute_task_once_latch:{{{name}}}") == b"1"
    assert 0 < server.ttl(f"redisson__execute_task_once_latch:{{{name}}}") <= 1
    assert cache.stats().evictors == 0


@pytest.mark.slow
def test_remove_empty_stops_eviction_of_an_empty_map(clients: Any, name: str) -> None:
    client = clients()
    threads = Threads()
    cache = client.map_cache(name, codec="string", policy=AdaptivePolicy(minimum=1, remove_empty=True))
    cache.put("a", "1", ttl="1ms")
    until(lambda: not threads.names, "nothing is kept any more")
    cache.put("b", "1", ttl="1ms")
    until(lambda: cache.stats().expired == 0 and cache.stats().size == 0, "it is kept again")


def test_nothing_is_evicted_automatically_in_imaginary_time(valkey_url: str, name: str, server: Any) -> None:
    threads = Threads()
    with TestClient(valkey_url, Clock()) as client:
        cache = client.map_cache(name, codec="string")
        cache.put("a", "1", ttl=5)
        client.clock.advance(5)
        assert not threads.names
        assert server.hlen(name) == 1
        assert not cache.contains_key("a")
        assert cache.evict() == 1


@pytest.mark.slow
def test_the_deputy_replaces_a_killed_evictor_process(
    clients: Any, name: str, server: Any, valkey_url: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    code = f"import tarry, time; m = tarry.Client({valkey_url!r}).map_cache({name!r}); m.size(); print(1, flush=True); time.sleep(99)"
    (program := tmp_path / "evictor.py").write_text(code)
    with tarry_command.talk_to(program) as (process, _, told):
        told.readline()
        until(lambda: server.zcard(f"tarry:shared:{{{name}}}:evictors") == 1, "it evicts")
        cache = clients().map_cache(name, codec="string")
        cache.put("a", "1", ttl="7s")
        until(lambda: server.zcard(f"tarry:shared:{{{name}}}:evictors") == 2, "this one is its deputy")
        process.kill()
        process.wait()
    until(lambda: server.hlen(name) == 0, "evicted by the deputy")


async def test_an_async_client_evicts_and_gives_its_seats_back(valkey_url: str, name: str, server: Any) -> None:
    async def awaited(true: Callable[[], Any], what: str) -> None:
        await asyncio.to_thread(until, true, what)

    async with tarry.AsyncClient(valkey_url) as client:
        maps = [client.map_cache(f"{name}-{i}", codec="string") for i in range(20)]
        await asyncio.gather(*[each.put("a", "1", ttl="30ms") for each in maps])
        await awaited(lambda: not any(server.hlen(each.name) for each in maps), "evicted")
        assert server.zcard(f"tarry:shared:{{{name}-0}}:evictors") == 1
        name_of_first = maps[0].name
        maps.clear()
        gc.collect()
        await awaited(lambda: not server.exists(f"tarry:shared:{{{name_of_first}}}:evictors"), "the seat is free")
        cache = client.map_cache(name, codec="string")
        await cache.put("a", "1")
    assert not server.exists(f"tarry:shared:{{{name}}}:evictors")


def test_expired_entries_are_evicted_in_bounded_steps(maps: Maps, name: str, clock: Clock) -> None:
    """No step of it holds the server up: each does what one may, and says that there is more."""
    if isinstance(maps.client, TestClient):
        cache = maps.client.map_cache(name, codec="string", policy=None)
        cache.put_all({f"k{i}": "" for i in range(500)}, ttl=1)
        clock.advance(1)
        steps = [step(maps.client, name, b"me") for _ in range(3)]
        assert [(found.evicted, found.more) for found in steps] == [(200, 1), (200, 1), (100, 0)]
        assert [found.wait for found in steps] == [0, 0, 5_000_000]
