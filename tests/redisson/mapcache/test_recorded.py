"""After our verbs the keys hold what they held after Redisson's, and the channels tell the same, byte for byte: all
recorded writes and events."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import pytest
import redis

from redisson.recorded import check_each, each_codec, raw, rows
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson import names
from tarry.verbs.redisson.entries import EntryEvent, PackedEntry, unpack_entry, unpack_event
from until import LONGEST_S

MAPS = ("vec:mc", "vec:{tag}:mc", "vec:mc:max", "vec:{tag}:mc:max", "vec:quiet")


@pytest.fixture
def client(valkey_url: str) -> Iterator[TestClient]:
    with TestClient(valkey_url, Clock(0)) as made:
        yield made


def start(client: TestClient, server: redis.Redis, now_ms: float) -> None:
    """Nothing on the server, and a moment in ms since 1970; the rows are in no order of time."""
    server.delete(*[key for name in MAPS for key in astuple(names.map_cache(name))])
    client.clock.us = 0
    client.clock.advance_to(int(now_ms) * 1000)


def name_of(row: dict[str, Any]) -> str:
    return f"{row['version']} {row['codec']} {row['do'][:40]}"


def spans(row: dict[str, Any]) -> tuple[int, int]:
    """The ttl and the idle time that the row's command gave, in ms."""
    verb, _, *given = shlex.split(row["do"])
    if verb == "mapcache.putAll":
        return int(given[0]), 0
    times = [int(word) for word in given[2:4]] if len(given) == 4 and verb != "mapcache.replace" else [0, 0]
    return times[0], times[1]


def in_ms(ms: float) -> str | None:
    return f"{ms:.0f}ms" if ms else None


@each_codec(rows("map_cache_writes"))
def test_a_write_leaves_the_keys_that_java_left(recorded: list[Any], client: TestClient, server: Any) -> None:
    check_each(recorded, name_of, lambda row: check_write(row, client, server))


def check_write(row: dict[str, Any], client: TestClient, server: Any) -> None:
    theirs = names.map_cache(row["hash"])
    key, packed = raw(row["field"]), raw(row["value"])
    entry = unpack_entry(packed or b"")
    assert isinstance(entry, PackedEntry)
    scores = {command[1]: float(command[2]) for command in row["zadd"] if raw(command[3]) == key}
    ttl, idle = spans(row)
    now_ms = 1_800_000_000_000.0
    if theirs.timeouts in scores:
        now_ms = scores[theirs.timeouts] - ttl
    elif theirs.idles in scores:
        now_ms = scores[theirs.idles] - (idle or entry.idle_ms)
    start(client, server, now_ms)
    cache = client.map_cache(row["hash"], codec="bytes", policy=None)
    if theirs.accesses in scores:
        cache.set_max_size(2)
    verb = row["do"].split()[0].removeprefix("mapcache.")
    quirk = verb == "putIfAbsent" and theirs.idles in scores and not entry.idle_ms
    if verb == "replace":
        cache.put(key, b"before", max_idle=in_ms(entry.idle_ms))
        cache.replace(key, entry.value)
    elif verb == "putAll":
        cache.put_all({key: entry.value}, ttl=in_ms(ttl))
    else:
        put = {"put": cache.put, "fastPut": cache.fast_put, "putIfAbsent": cache.put_if_absent}
        put["fastPutIfAbsent"] = cache.fast_put_if_absent
        put[verb](key, entry.value, ttl=in_ms(ttl), max_idle=in_ms(idle))
    assert server.hget(theirs.entries, key) == packed
    for name in (theirs.timeouts, theirs.idles, theirs.accesses):
        expected = None if quirk and name == theirs.idles else scores.get(name)
        assert server.zscore(name, key) == expected


@each_codec(rows("map_cache_events"))
def test_an_event_publishes_what_java_published(recorded: list[Any], client: TestClient, server: Any) -> None:
    check_each(recorded, name_of, lambda row: check_event(row, client, server))


def check_event(row: dict[str, Any], client: TestClient, server: Any) -> None:
    kind = row["channel"].split(":")[0].rpartition("_")[2]
    name = next(name for name in MAPS if getattr(names.map_cache(name), kind) == row["channel"])
    message = raw(row["payload"])
    event = unpack_event(message or b"", updated=kind == "updated")
    assert isinstance(event, EntryEvent)
    start(client, server, 1_800_000_000_000)
    cache = client.map_cache(name, codec="bytes", policy=None)
    server.hset(names.map_cache(name).options, "has-listeners", 1)
    with server.pubsub() as listener:
        listener.subscribe(row["channel"])
        listener.get_message(timeout=LONGEST_S)
        if event.old is not None:
            cache.put(event.key, event.old)
        cache.put(event.key, event.value, ttl="1s")
        if kind == "removed":
            cache.fast_remove(event.key)
        if kind == "expired":
            client.clock.advance("1s")
            assert cache.evict() == 1
        server.publish(row["channel"], "end")
        heard = [listener.get_message(timeout=LONGEST_S)["data"] for _ in range(2)]
    assert heard == [message, b"end"]
