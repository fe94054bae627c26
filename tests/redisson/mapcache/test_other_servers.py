"""One story of a map cache on other servers than the embedded one: of Redis, and a Cluster with sharded channels."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import pytest

import tarry
from tarry.errors import BadInput, ServerUnfit
from tarry.verbs.redisson.mapcache.map_values import MapEvent
from until import LONGEST_S, until

pytestmark = pytest.mark.otherserver


def blocking_story(url: str, name: str) -> None:
    seen: queue.Queue[MapEvent[Any, Any]] = queue.Queue()
    with tarry.Client(url) as one, tarry.Client(url) as two:
        cache, other = (client.map_cache(name, codec="json") for client in (one, two))
        cache.clear()
        with other.listen(seen.put):
            cache.put("tea", "green", ttl="1h")
            cache.replace("tea", "black")
            assert other.get("tea") == "black"
            assert dict(other.as_dict()) == {"tea": "black"}
            cache.add_and_get("n", 5)
            cache.remove("n", 5)
            assert cache.expire_entry("tea", ttl="80ms")
            kinds = [seen.get(timeout=LONGEST_S).kind for _ in range(5)]
        assert kinds == ["created", "updated", "created", "removed", "expired"]
        until(lambda: cache.size() == 0, "evicted")
        cache.set_max_size(3)
        cache.put_all({str(i): "x" for i in range(10)}, max_idle=60)
        assert cache.size() == 3
        assert cache.compute_if_absent("load", lambda key: key + "ed") == "loaded"
        cache.clear()


async def awaiting_story(url: str, name: str) -> None:
    seen: asyncio.Queue[MapEvent[Any, Any]] = asyncio.Queue()
    async with tarry.AsyncClient(url) as client, asyncio.timeout(LONGEST_S):
        cache = client.map_cache(name, codec="json")
        async with await cache.listen(seen.put, "created", "expired"):
            await asyncio.gather(*[cache.put(str(i), i, ttl="50ms") for i in range(50)])
            events = [await seen.get() for _ in range(100)]
        assert sorted(event.key for event in events if event.kind == "expired") == sorted(map(str, range(50)))
        assert await cache.size() == 0


@pytest.mark.parametrize("url", ["redis8_url", "redis7_url", "redis6_url"])
def test_map_caches_work_on_redis(url: str, request: pytest.FixtureRequest, name: str) -> None:
    blocking_story(request.getfixturevalue(url), name)
    asyncio.run(awaiting_story(request.getfixturevalue(url), f"{name}-a"))


def test_everything_works_on_a_cluster(cluster_nodes: list[tuple[str, int]], name: str) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    for number in range(4):  # in several slots
        blocking_story(url, f"{name}-{number}")
    asyncio.run(awaiting_story(url, f"{name}:{{tag}}"))
    with tarry.Client(url) as client, pytest.raises(BadInput, match="several slots"):
        client.map_cache("a{b")


def test_events_reach_sharded_subscribers_like_javas(cluster_nodes: list[tuple[str, int]], name: str) -> None:
    import redis

    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    channel = f"redisson_map_cache_created:{{{name}}}"
    with redis.RedisCluster(host=cluster_nodes[0][0], port=cluster_nodes[0][1]) as raw, tarry.Client(url) as client:
        listener = raw.pubsub()
        listener.ssubscribe(channel)
        cache = client.map_cache(name, codec="string", policy=None)
        with cache.listen(print):
            pass
        cache.put("tea", "green")
        until(lambda: (listener.get_sharded_message(timeout=0.01) or {}).get("type") == "smessage", "it came")
        listener.close()


def test_native_maps_need_a_server_with_field_expiry(redis7_url: str, name: str) -> None:
    with tarry.Client(redis7_url) as client:
        cache = client.map_cache(name, codec="string", backend="native")
        with pytest.raises(ServerUnfit, match="Valkey 9 or Redis"):
            cache.put("tea", "green", ttl=5)
        assert cache.size() == 0
