"""``backend="native"`` and ``"redisson-native"``: bare values whose fields the server expires by itself. Real time, short."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import tarry
from redisson.mapcache.conftest import NATIVE, Maps
from tarry.errors import BadInput
from until import until

pytestmark = NATIVE


@pytest.fixture
def cache(maps: Maps, name: str) -> Any:
    return maps.map(name, backend="native", policy="deadline")


def own_key(cache: Any) -> str:
    return str(cache.verbs.keys.entries.decode())


@pytest.mark.parametrize("backend", ["native", "redisson-native"])
async def test_the_layout_is_that_of_redissons_native_maps(maps: Maps, server: Any, name: str, backend: str) -> None:
    cache = maps.map(name, backend=backend)
    key = name if backend == "redisson-native" else f"tarry:{{{maps.client.namespace}/{name}}}:entries"
    await cache.put("tea", "green", ttl="10m")
    await cache.put("milk", "cold")
    assert server.hgetall(key) == {b"tea": b"green", b"milk": b"cold"}
    (ttl,) = server.execute_command("HPTTL", key, "FIELDS", 1, "tea")
    assert 599_000 < ttl <= 600_000
    assert server.keys(f"*{name}*") == [key.encode()]


async def test_native_maps_of_two_namespaces_do_not_meet(url: str, server: Any, name: str) -> None:
    server.set(name, "precious")
    with tarry.Client(url, namespace="shop") as shop, tarry.Client(url, namespace="bank") as bank:
        mine, theirs = (client.map_cache(name, backend="native") for client in (shop, bank))
        mine.put("tea", 3, ttl="10m")
        assert (mine.get("tea"), theirs.get("tea"), theirs.size()) == (3, None, 0)
        assert theirs.compute_if_absent("tea", lambda _: 4) == 4
        assert mine.clear()
        assert (mine.size(), theirs.size()) == (0, 1)
        theirs.clear()
    assert server.get(name) == b"precious"


async def test_redissons_native_maps_are_the_same_in_every_namespace(url: str, name: str) -> None:
    with tarry.Client(url, namespace="shop") as shop, tarry.Client(url, namespace="bank") as bank:
        shop.map_cache(name, redisson="4.7.0", backend="redisson-native").put("tea", 3, ttl="10m")
        javas = bank.map_cache(name, redisson="4.7.0", backend="redisson-native")
        assert javas.get("tea") == 3
        assert bank.map_cache(name, backend="native").get("tea") is None, "another map than Java's"
        javas.clear()


async def test_a_name_mapper_maps_no_native_map_of_the_namespace(url: str, name: str) -> None:
    with tarry.Client(url, name_mapper="java:") as client:
        assert (
            client.map_cache(name, backend="native").verbs.keys.entries == f"tarry:{{default/{name}}}:entries".encode()
        )
        javas = client.map_cache(name, codec="string", backend="redisson-native")
        assert javas.verbs.keys.entries == f"java:{name}".encode()


async def test_a_name_of_a_native_map_is_checked(maps: Maps) -> None:
    for wrong in ("", "a{b", " a"):
        with pytest.raises(BadInput, match="map: "):
            maps.map(wrong, backend="native")


async def test_every_verb_of_a_native_map_works(cache: Any, maps: Maps, server: Any, name: str) -> None:
    assert await cache.put("tea", "green", ttl="10m") is None
    assert await cache.put("tea", "black", keep_ttl=True) == "green"
    assert timedelta(minutes=9) < await cache.remaining_ttl("tea") <= timedelta(minutes=10)
    assert await cache.put("tea", "white") == "black"
    assert await cache.remaining_ttl("tea") == timedelta.max
    assert await cache.remaining_ttl("none") is None
    assert await cache.put_if_absent("tea", "x") == "white"
    assert await cache.fast_put_if_absent("milk", "cold", ttl=60) is True
    assert await cache.fast_put("milk", "hot") is False
    assert await cache.replace("tea", "red") == "white"
    assert await cache.replace("tea", "white", "x") is False
    assert await cache.get("tea") == await cache.get_with_ttl_only("tea") == "red"
    assert await cache.get_all(["tea", "none"]) == {"tea": "red"}
    assert await cache.contains_key("tea")
    assert not await cache.contains_key("none")
    assert await cache.contains_value("hot")
    await cache.put_all({f"k{i}": "x" for i in range(600)}, ttl=60)
    assert await cache.size() == 602
    assert await cache.fast_remove(*[f"k{i}" for i in range(600)]) == 600
    assert await cache.expire_entry("tea", ttl=60) is True
    assert await cache.expire_entry("tea", ttl=90, if_not_set=True) is False
    assert await cache.expire_entry("tea") is True
    assert await cache.remaining_ttl("tea") == timedelta.max
    assert await cache.expire_entry("none", ttl=1) is False
    assert sorted(await maps.listed(cache, "items")) == [("milk", "hot"), ("tea", "red")]
    assert await cache.remove("tea", "x") is False
    assert await cache.remove("tea") == "red"
    assert await cache.add_and_get("n", 5) == 5
    assert await cache.expire(600) is True
    assert await cache.clear_expire() is True
    assert await cache.clear() is True
    assert server.keys(f"*{name}*:entries") == []


async def test_a_field_of_a_native_map_expires(cache: Any, server: Any, name: str) -> None:
    await cache.put("tea", "green", ttl="20ms")
    until(lambda: not server.hexists(own_key(cache), "tea"), "the server has taken it out")
    assert await cache.get("tea") is None


async def test_replace_clears_the_ttl_as_in_java(cache: Any) -> None:
    await cache.put_all({"tea": "green", "milk": "cold"}, ttl="10m")
    assert await cache.replace("tea", "pink", "red") is False
    assert await cache.remaining_ttl("tea") <= timedelta(minutes=10)
    assert await cache.replace("tea", "green", "red") is True
    assert await cache.replace("milk", "hot") == "cold"
    assert await cache.remaining_ttl("tea") == await cache.remaining_ttl("milk") == timedelta.max


async def test_add_and_get_keeps_the_ttl(cache: Any) -> None:
    await cache.put("n", "1", ttl="10m")
    assert await cache.add_and_get("n", 1.5) == 2.5
    assert timedelta(minutes=9) < await cache.remaining_ttl("n") <= timedelta(minutes=10)
    await cache.put("t", "seven")
    with pytest.raises(BadInput, match="not a number"):
        await cache.add_and_get("t", 1)


async def test_unsupported_verbs_are_refused(cache: Any) -> None:
    for refused in (
        lambda: cache.put("a", "1", max_idle=5),
        lambda: cache.set_max_size(5),
        lambda: cache.listen(print),
        cache.evict,
        cache.stats,
        lambda: cache.expire_entry("a", max_idle=5),
    ):
        with pytest.raises(BadInput, match='backend="native"'):
            await refused()
