"""``contains`` and ``remove`` compare bytes, as Redisson does: maps and sets are found; a log line says where Java's may
differ."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson import codecs
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import pack

SET, NESTED = (
    b'["java.util.HashSet",[17,1]]',
    b'{"@class":"java.util.HashMap","z":2,"k":["java.util.HashSet",[33,17,1]]}',
)


def java_offers(server: Any, name: str, payload: bytes) -> None:
    element = pack(payload, b"12345678")
    server.zadd(keys_of(name).timeouts, {element: 4e12})
    server.rpush(keys_of(name).order, element)


@pytest.mark.parametrize("payload", [SET, NESTED])
async def test_a_value_that_was_read_is_found_again(queues: Any, server: Any, name: str, payload: bytes) -> None:
    queue = queues.delayed(name, codec="json")
    java_offers(server, name, payload)
    (found,) = await queue.read_all()
    assert await queue.contains(found)
    assert await queue.remove(found)
    assert await queue.size() == 0
    ready = queues.blocking(name, codec="json")
    await ready.put(found)
    assert server.lrange(name, 0, -1) == [payload]
    assert await ready.contains(found)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        ("json", {"k": "v", "z": 2}),
        ("json", {"orderId": 7, "userId": 8, "amount": 9}),
        ("kryo5", {"k": "v", "z": 2}),
        ("kryo5", [{"k": {"k": 1, "z": 2}, "z": {2, 1}}]),
    ],
)
async def test_an_equal_literal_in_another_order_is_found(queues: Any, name: str, codec: str, value: Any) -> None:
    def turned(one: Any) -> Any:
        if isinstance(one, list):
            return [turned(item) for item in one]
        return {key: turned(one[key]) for key in reversed(one)} if isinstance(one, dict) else one

    queue = queues.delayed(name, codec=codec)
    await queue.offer(value, "1h")
    assert await queue.contains(turned(value))
    assert await queue.remove(turned(value))


@pytest.mark.parametrize("verb", ["contains", "remove", "contains_all", "remove_all", "ready"])
async def test_a_value_that_java_may_encode_differently_is_logged_once(
    queues: Any, server: Any, name: str, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    codecs._log.cache_clear()
    queue, ready = queues.delayed(name, codec="json"), queues.blocking(name, codec="json")
    java_offers(server, name, SET)
    search = ready.contains if verb == "ready" else getattr(queue, verb)
    with caplog.at_level(logging.WARNING, "tarry"):
        for sure in ({1, 2}, {"z": 1}, "tea"):
            assert not await search([sure] if verb.endswith("all") else sure)
        assert "other bytes" not in caplog.text
        for _ in range(3):
            assert not await search([{1, 17}] if verb.endswith("all") else {1, 17})
    (told,) = [line.message for line in caplog.records if "other bytes" in line.message]
    assert name in told
    assert "share a bucket" in told


def test_a_map_compares_keys_and_values_in_the_same_way(
    valkey_url: str, clock: Clock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    codecs._log.cache_clear()
    with TestClient(valkey_url, clock) as client:
        cache = client.map_cache(name, codec="json", policy=None)
        cache.put("a", {"k": "v", "z": 2})
        assert cache.contains_value({"z": 2, "k": "v"})
        assert cache.replace("a", {"z": 2, "k": "v"}, {17, 1})
        assert not cache.remove("a", {1, 17, 33})
        assert "other bytes" in caplog.text
        assert cache.remove("a", cache.get("a"))
        by_map = client.map_cache(f"{name} keys", codec="kryo5", policy=None)
        by_map.put({"k": 1, "z": 2}, "here")
        assert by_map.get({"z": 2, "k": 1}) == "here"


def test_codecs_without_java_hashes_log_no_warning(
    valkey_url: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A codec of one's own, or one without Java's hashes, has bytes of its own."""

    class Own:
        def encode(self, value: Any) -> bytes:
            return repr(sorted(value)).encode()

        def decode(self, raw: bytes) -> Any:
            return raw

    with tarry.Client(valkey_url) as client:
        assert not client.delayed_queue(name, codec=Own()).contains({1, 17})
    assert "other bytes" not in caplog.text
