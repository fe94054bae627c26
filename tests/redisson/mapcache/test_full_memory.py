"""A server whose memory is full: reads and removals work; a write is refused, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import Unavailable


@pytest.fixture
def full(own_server: Callable[..., ServerProcess]) -> Iterator[tuple[Any, Clock]]:
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        cache = client.map_cache("m", codec="string", policy=None)
        cache.set_max_size(50)
        cache.put_all({f"k{i}": "7" for i in range(20)}, ttl=10, max_idle=5)
        running.ask("CONFIG", "SET", "maxmemory", "1")
        yield cache, clock


def test_writes_are_refused_and_change_nothing(full: tuple[Any, Clock]) -> None:
    cache, _ = full
    for ask in (
        lambda: cache.put("k1", "8"),
        lambda: cache.put("new", "8", ttl=5),
        lambda: cache.replace("k1", "8"),
        lambda: cache.add_and_get("k1", 1),
        lambda: cache.put_if_absent("new", "8"),
        lambda: cache.expire_entry("k1"),
        lambda: cache.compute_if_absent("new", lambda _: "8"),
    ):
        with pytest.raises(Unavailable, match="memory is full"):
            ask()
    assert cache.remaining_ttl("k1") == timedelta(seconds=5)
    assert dict(cache.as_dict().items()) == {f"k{i}": "7" for i in range(20)}


def test_reads_and_removals_work(full: tuple[Any, Clock]) -> None:
    cache, _ = full
    assert cache.get("k1") == "7"
    assert cache.contains_key("k2")
    assert cache.get_all(["k3", "none"]) == {"k3": "7"}
    assert cache.put_if_absent("k4", "8") == "7"
    assert cache.replace("k4", "9", "8") is False
    assert cache.remove("k4") == "7"
    assert cache.fast_remove("k5", "k6") == 2
    assert cache.stats().size == cache.size() == 17
    assert cache.clear() is True


def test_eviction_works(full: tuple[Any, Clock]) -> None:
    cache, clock = full
    clock.advance(5)
    assert cache.evict() == 20


def test_a_sum_is_refused_for_the_memory_not_for_the_number(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with TestClient(running.url, Clock()) as client:
        cache = client.map_cache("m", codec="string", backend="native")
        cache.put("n", "41")
        running.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(Unavailable, match="memory is full"):
            cache.add_and_get("n", 1)
        assert cache.get("n") == "41"
