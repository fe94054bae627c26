"""A value that one loads for all. Real time, short."""

from __future__ import annotations

import asyncio
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from redisson.mapcache.conftest import BACKENDS
from tarry.errors import BadInput
from until import LONGEST_S, until


def lease_of(name: str, key: str) -> str:
    return f"redisson__map__lease:{{{name}}}:{key}"


@BACKENDS
def test_one_thread_loads_for_all(url: str, name: str, backend: Any, server: Any) -> None:
    loads: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def loader(key: str) -> str:
        loads.append(key)
        begun.set()
        assert go.wait(LONGEST_S)
        return "green"

    with tarry.Client(url) as one, tarry.Client(url) as two, ThreadPoolExecutor(8) as pool:
        maps = [client.map_cache(name, codec="string", backend=backend) for client in (one, two)]
        futures = [pool.submit(maps[i % 2].compute_if_absent, "tea", loader, ttl="1h") for i in range(8)]
        assert begun.wait(LONGEST_S)
        hints = maps[0].verbs.keys.hints
        until(lambda: server.pubsub_numsub(hints)[0][1] == 2, "both clients listen")
        before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
        threading.Event().wait(0.3)
        assert server.info("commandstats")["cmdstat_evalsha"]["calls"] - before < 30, "who waits does not ask"
        go.set()
        assert [future.result(LONGEST_S) for future in futures] == ["green"] * 8
        assert loads == ["tea"]
        left = maps[0].remaining_ttl("tea")
        assert left is not None
        assert 3500 < left.total_seconds() <= 3600
        assert not server.exists(maps[0].verbs.context.lease(b"tea"))


async def test_one_task_loads_for_all(valkey_url: str, name: str) -> None:
    loads: list[str] = []

    async def loader(key: str) -> str:
        loads.append(key)
        await asyncio.sleep(0.05)
        return "green"

    async with tarry.AsyncClient(valkey_url) as client, asyncio.timeout(LONGEST_S):
        cache = client.map_cache(name, codec="string", policy=None)
        assert await asyncio.gather(*[cache.compute_if_absent("tea", loader) for _ in range(20)]) == ["green"] * 20
    assert loads == ["tea"]


def test_a_failed_loader_lets_the_next_one_load(valkey_url: str, name: str) -> None:
    begun, turns = threading.Event(), iter([ValueError("no tea"), None, "green"])

    def loader(key: str) -> str | None:
        begun.set()
        found = next(turns)
        if isinstance(found, ValueError):
            threading.Event().wait(0.05)
            raise found
        return found

    with tarry.Client(valkey_url) as client, ThreadPoolExecutor(3) as pool:
        cache = client.map_cache(name, codec="string", policy=None)
        futures = [pool.submit(cache.compute_if_absent, "tea", loader) for _ in range(3)]
        outcomes = sorted(str(future.exception(30) or future.result()) for future in futures)
        assert outcomes == ["None", "green", "no tea"]
        assert cache.get("tea") == "green"


@BACKENDS
def test_a_dead_loader_blocks_others_only_during_its_lease(url: str, name: str, server: Any, backend: Any) -> None:
    server.set(lease_of(name, "tea"), "tarry:dead", px=300)
    with tarry.Client(url) as client:
        cache = client.map_cache(name, codec="string", backend=backend, policy=None)
        assert cache.compute_if_absent("tea", lambda _: "green") == "green"


def test_a_waiting_loader_is_notified_by_java(valkey_url: str, name: str, server: Any) -> None:
    server.set(lease_of(name, "tea"), "0123456789abcdef", px=600_000)
    options = f"{{{name}}}:redisson_options"
    with tarry.Client(valkey_url) as client, ThreadPoolExecutor(1) as pool:
        cache = client.map_cache(name, codec="string", policy=None)
        future = pool.submit(cache.compute_if_absent, "tea", lambda _: "never")
        until(lambda: server.hexists(options, "has-listeners"), "Java is asked to tell")
        until(lambda: server.pubsub_numsub(f"redisson_map_cache_created:{{{name}}}")[0][1], "it listens")
        message = struct.pack("<Q", 3) + b"tea" + struct.pack("<Q", 5) + b"black"
        with server.pipeline(transaction=True) as java:  # as its putWithLease does, in one script
            java.delete(lease_of(name, "tea"))
            java.hset(name, "tea", struct.pack("<dQ", 0, 5) + b"black")
            java.publish(f"redisson_map_cache_created:{{{name}}}", message)
            java.execute()
        assert future.result(LONGEST_S) == "black"


@BACKENDS
def test_a_loaded_value_does_not_overwrite_a_newer_one(url: str, name: str, backend: Any) -> None:
    with tarry.Client(url) as client:
        cache = client.map_cache(name, codec="string", backend=backend, policy=None)

        def overtaken(key: str) -> str:
            cache.put(key, "newer")
            return "stale"

        def withdrawn(key: str) -> str:
            cache.remove(key)
            return "stale"

        assert cache.compute_if_absent("a", overtaken) == "newer"
        assert cache.get("a") == "newer"
        assert cache.compute_if_absent("b", withdrawn) == "stale"
        assert cache.get("b") is None


async def test_a_cancelled_loader_releases_its_lease(valkey_url: str, name: str, server: Any) -> None:
    async def loader(key: str) -> str:
        await asyncio.sleep(60)
        return "late"

    async with tarry.AsyncClient(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await cache.compute_if_absent("tea", loader)
        assert not server.exists(lease_of(name, "tea"))


async def test_a_call_cancelled_before_loading_releases_its_lease(valkey_url: str, name: str, server: Any) -> None:
    def scripts() -> int:
        return int(server.info("commandstats")["cmdstat_evalsha"]["calls"])

    async with tarry.AsyncClient(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        await cache.get("tea")  # it is connected
        before = scripts()
        server.client_pause(100)
        future = asyncio.ensure_future(cache.compute_if_absent("tea", lambda _: asyncio.sleep(60, "late")))
        await asyncio.sleep(0.03)  # it is sent, and not answered
        future.cancel()
        await asyncio.wait({future})
        await asyncio.to_thread(until, lambda: scripts() >= before + 2, "taken, and given back")
        assert not server.exists(lease_of(name, "tea"))


def test_an_invalid_lease_is_refused(valkey_url: str, name: str) -> None:
    with tarry.Client(valkey_url) as client, pytest.raises(BadInput, match="lease"):
        client.map_cache(name, policy=None).compute_if_absent("a", lambda _: "x", lease=0)
