"""A map cache: one blocking client puts and gets, entries in memory, and 10,000 expired ones gone.

put, get    ``fast_put(key, value, ttl=…)`` and ``get(key)`` of 200 bytes, one by one, codec ``bytes``
yardstick   redis-py's ``evalsha`` of HSET + ZADD, and of HGET, with as many arguments of the same sizes, prepared
expired     10,000 entries have expired; from the first verb of a handle until another client has got all events and the map
            is empty. Redisson's task evicts 20 a second: 500 s. The longest script by the server's SLOWLOG
memory      growth of ``used_memory`` an entry of 200 bytes with a time to live, in both layouts
"""

from __future__ import annotations

import threading
import time

from redis import Redis

import tarry
from bench.harness import RAW_BODY, Bench
from bench.results import Reading, Result, Target, Turn, costs, rates
from bench.rows.memory import used
from tarry.clients.replies import command_of

BARE_PUT = """
redis.call('HSET', KEYS[1], ARGV[10], ARGV[11])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[10])
return 1
"""
BARE_GET = "return redis.call('HGET', KEYS[1], ARGV[3])"
SLOW_US = 1000


def map_cache(bench: Bench) -> list[Result]:
    return [*_speed(bench), *_expired(bench), *_memory(bench)]


def _speed(bench: Bench) -> list[Result]:
    count = bench.size(1_500, 1_000, 50)
    keys = [b"key-%d" % number for number in range(count)]
    with tarry.Client(bench.url) as client, Redis(unix_socket_path=bench.socket) as redis:
        cache = client.map_cache("cache", codec="bytes", policy=None)
        put, get = redis.script_load(BARE_PUT), redis.script_load(BARE_GET)

        def putting() -> Turn:
            with bench.turn(count) as taken:
                for key in keys:
                    cache.fast_put(key, RAW_BODY, ttl=3600)
            return taken()

        calls = [cache.verbs.fast_put(key, RAW_BODY, 3600, None, False) for key in keys]
        puts = [(b"EVALSHA", put, *command_of(call, b"")[2:]) for call in calls]
        gets = [(b"EVALSHA", get, *command_of(cache.verbs.get(key), b"")[2:]) for key in keys]

        def bare_putting() -> Turn:
            with bench.turn(count) as taken:
                for words in puts:
                    redis.execute_command(*words)
            return taken()

        def getting() -> Turn:
            cache.put_all(dict.fromkeys(keys, RAW_BODY), ttl=3600)
            with bench.turn(count) as taken:
                for key in keys:
                    cache.get(key)
            return taken()

        def bare_getting() -> Turn:
            redis.hset("cache", mapping=dict.fromkeys(keys, RAW_BODY))
            with bench.turn(count) as taken:
                for words in gets:
                    redis.execute_command(*words)
            return taken()

        turns = bench.turns(putting, bare_putting, getting, bare_getting, times=bench.size(6, 3, 1))
    put_turns, bare_puts, get_turns, bare_gets = turns
    return [
        Result(
            "map_cache",
            f"blocking {what}, one by one",
            "/s",
            rates(ours),
            Target("≥", 0.83, "ratio"),
            rates(theirs),
            costs(ours, "tarry") | costs(theirs, "bare"),
        )
        for what, ours, theirs in (("fast_put with a ttl", put_turns, bare_puts), ("get", get_turns, bare_gets))
    ]


def _expired(bench: Bench) -> list[Result]:
    count = bench.size(10_000, 10_000, 200)
    took: list[float] = []
    longest: list[float] = []
    with Redis.from_url(bench.url) as redis:
        redis.config_set("slowlog-max-len", 10_000)
        redis.config_set("slowlog-log-slower-than", SLOW_US)
        for number in range(bench.repeat + 1):
            bench.flush()
            seconds, slowest = _one_expiry(bench, redis, count)
            if number:
                took.append(seconds)
                longest.append(slowest)
    what = f"{count:,} expired entries gone, every event received"
    words = f"longest of its scripts, {count:,} entries"
    return [
        Result("map_cache", what, "s", Reading(tuple(took)), Target("≤", 2)),
        Result("map_cache", words, "ms", Reading(tuple(longest)), Target("≤", 10)),
    ]


def _one_expiry(bench: Bench, redis: Redis, count: int) -> tuple[float, float]:
    heard, over = [0], threading.Event()

    def hear(_: tarry.redisson.MapEvent[bytes, bytes]) -> None:
        heard[0] += 1
        if heard[0] == count:
            over.set()

    with tarry.Client(bench.url) as client, tarry.Client(bench.url) as other:
        writer = client.map_cache("cache", codec="bytes", policy=None)
        writer.put_all({b"key-%d" % number: RAW_BODY for number in range(count)}, ttl="1ms")
        listening = other.map_cache("cache", codec="bytes", policy=None).listen(hear, "expired")
        redis.slowlog_reset()
        began = time.perf_counter()
        kept = client.map_cache("cache", codec="bytes")  # while a client listens
        kept.size()
        assert over.wait(60)
        took = time.perf_counter() - began
        listening.stop()
    assert not redis.exists("cache", "redisson__timeout__set:{cache}")
    scripts = [entry["duration"] for entry in redis.slowlog_get(10_000) if entry["command"].startswith(b"EVAL")]
    return took, max(scripts, default=SLOW_US) / 1000


def _memory(bench: Bench) -> list[Result]:
    count = bench.size(100_000, 50_000, 500)
    entries = {b"key-%08d" % number: RAW_BODY for number in range(count)}
    found: list[float] = []
    with tarry.Client(bench.url) as client:
        for backend in ("redisson", "native"):
            bench.flush()
            cache = client.map_cache("cache", codec="bytes", backend=backend, policy=None)
            before = used(bench)
            cache.put_all(entries, ttl=86400)
            found.append((used(bench) - before) / count)
    shared, native = found
    words = f"server memory an entry with a ttl, {count:,} of them"
    return [
        Result("map_cache", f"{words}, native", "bytes", Reading((native,))),
        Result("map_cache", words, "bytes", Reading((shared,)), yardstick=Reading((native,))),
    ]
