"""Handlers of a map's events: across clients, past failures and lost connections. Real time, short."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest
import redis

import tarry
from tarry.clients.blocking.pubsub import PubSub
from tarry.connections.blocking import Server
from tarry.verbs.redisson.mapcache.map_values import MapEvent
from until import LONGEST_S, until


def cut(server: Any) -> int:
    """Ends every connection that listens; answers how many."""
    ids = [client["id"] for client in server.client_list(_type="pubsub")]
    for number in ids:
        server.client_kill_filter(_id=number)
    return len(ids)


async def test_events_reach_blocking_and_async_clients(valkey_url: str, name: str) -> None:
    blocking: queue.Queue[MapEvent[Any, Any]] = queue.Queue()
    awaiting: asyncio.Queue[MapEvent[Any, Any]] = asyncio.Queue()

    def story(client: tarry.Client) -> None:
        mine = client.map_cache(name, codec="json", policy=None)
        mine.put("tea", {"kind": "green"})
        mine.put("tea", "black")
        mine.remove("tea")
        mine.put("tea", "white", ttl="1ms")
        while not mine.evict():
            pass

    with tarry.Client(valkey_url) as one:
        async with tarry.AsyncClient(valkey_url) as other:
            theirs = other.map_cache(name, codec="json", policy=None)
            with one.map_cache(name, codec="json", policy=None).listen(blocking.put, "updated", "removed"):
                async with await theirs.listen(awaiting.put):
                    await asyncio.to_thread(story, one)
                    async with asyncio.timeout(LONGEST_S):
                        seen = [await awaiting.get() for _ in range(5)]
                    heard = [await asyncio.to_thread(blocking.get, timeout=LONGEST_S) for _ in range(2)]
    assert seen == [
        MapEvent("created", "tea", {"kind": "green"}),
        MapEvent("updated", "tea", "black", {"kind": "green"}),
        MapEvent("removed", "tea", "black"),
        MapEvent("created", "tea", "white"),
        MapEvent("expired", "tea", "white"),
    ]
    assert heard == seen[1:3]


def test_a_failing_handler_does_not_end_the_subscription(valkey_url: str, name: str, caplog: Any) -> None:
    seen: queue.Queue[str] = queue.Queue()

    def handler(event: MapEvent[str, str]) -> None:
        if event.key == "bad":
            raise ValueError("no such key")
        seen.put(event.key)

    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        with cache.listen(handler):
            cache.put_all({"bad": "1", "good": "2"})
            assert seen.get(timeout=LONGEST_S) == "good"
    assert "no such key" in caplog.text


def test_a_handler_may_use_the_map(valkey_url: str, name: str) -> None:
    over = threading.Event()

    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)

        def handler(event: MapEvent[str, str]) -> None:
            if event.key == "question":
                cache.put("answer", event.value)
            else:
                over.set()

        with cache.listen(handler, "created"):
            cache.put("question", "42")
            assert over.wait(LONGEST_S)


def test_a_stopped_handler_receives_no_events_and_others_still_do(valkey_url: str, name: str, server: Any) -> None:
    first: queue.Queue[str] = queue.Queue()
    second: queue.Queue[str] = queue.Queue()
    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        one = cache.listen(lambda event: first.put(event.key))
        two = cache.listen(lambda event: second.put(event.key))
        channel = f"redisson_map_cache_created:{{{name}}}"
        assert server.pubsub_numsub(channel) == [(channel.encode(), 1)], "one connection for both"
        cache.put("a", "1")
        assert (first.get(timeout=LONGEST_S), second.get(timeout=LONGEST_S)) == ("a", "a")
        one.stop()
        cache.put("b", "1")
        assert second.get(timeout=LONGEST_S) == "b"
        assert first.empty()
        two.stop()
        until(lambda: server.pubsub_numsub(channel) == [(channel.encode(), 0)], "nobody listens")


def test_a_cut_subscription_is_reopened(valkey_url: str, name: str, server: Any) -> None:
    seen: queue.Queue[str] = queue.Queue()
    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        with cache.listen(lambda event: seen.put(event.key), "created"):
            channel = f"redisson_map_cache_created:{{{name}}}"
            assert cut(server)
            until(lambda: server.pubsub_numsub(channel) == [(channel.encode(), 1)], "it listens again")
            cache.put("a", "1")
            assert seen.get(timeout=LONGEST_S) == "a"


async def test_a_cut_subscription_of_an_async_client_is_reopened(valkey_url: str, name: str, server: Any) -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()
    async with tarry.AsyncClient(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        async with await cache.listen(lambda event: seen.put(event.key), "created"):
            channel = f"redisson_map_cache_created:{{{name}}}"
            assert cut(server)
            async with asyncio.timeout(LONGEST_S):
                heard = [(channel.encode(), 1)]
                await asyncio.to_thread(until, lambda: server.pubsub_numsub(channel) == heard, "it listens again")
                await cache.put("a", "1")
                assert await seen.get() == "a"


def test_foreign_messages_on_a_channel_are_skipped(valkey_url: str, name: str, server: Any) -> None:
    seen: queue.Queue[str] = queue.Queue()
    with tarry.Client(valkey_url) as client:
        cache = client.map_cache(name, codec="string", policy=None)
        with cache.listen(lambda event: seen.put(event.key), "created"):
            for message in (b"", b"x", b"\xff" * 40):
                server.publish(f"redisson_map_cache_created:{{{name}}}", message)
            cache.put("a", "1")
            assert seen.get(timeout=LONGEST_S) == "a"


async def test_a_listener_stopped_at_once_receives_nothing(cache: Any) -> None:
    seen: list[Any] = []
    listener = await cache.listen(seen.append)
    stopped = listener.stop()
    if stopped is not None:
        await stopped
    await cache.put("tea", "green")
    assert seen == []


@pytest.mark.slow
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a_forbidden_subscription_raises_and_is_not_retried_constantly(
    own_server: Any, name: str, awaited: bool
) -> None:
    running = own_server(port=True)
    running.ask("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels")
    host, port = running.address
    url = f"redis://deaf:secret@{host}:{port}"

    async def listen() -> None:
        async with tarry.AsyncClient(url, patience=1) as client:
            await client.map_cache(name, policy=None).listen(print)

    def listen_blocking() -> None:
        with tarry.Client(url, patience=1) as client:
            client.map_cache(name, policy=None).listen(print)

    with pytest.raises(tarry.Unavailable, match="did not confirm"):
        asyncio.run(listen()) if awaited else listen_blocking()
    with redis.Redis(host=host, port=port) as raw:
        assert int(raw.info("stats")["total_connections_received"]) < 20


def test_unsubscribing_while_connecting_closes_the_connection(valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.clients.channels.PING_AFTER_S", 1000.0)  # nothing else would wake it
    calls, let_go, connect = threading.Event(), threading.Event(), Server.connect

    def slowly(self: Server) -> Any:
        connection = connect(self)
        calls.set()
        assert let_go.wait(LONGEST_S)
        return connection

    with tarry.Client(valkey_url) as client:
        client.topics()
        pubsub = client.engine.shared_part(PubSub)
        monkeypatch.setattr(Server, "connect", slowly)
        subscriber = pubsub.subscribe(b"map", (b"channel",), lambda *_: None, wait=False)
        assert calls.wait(LONGEST_S)
        pubsub.unsubscribe(subscriber)
        let_go.set()
        until(lambda: not pubsub._connections, "the line has ended")
