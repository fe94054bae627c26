"""The usual pop of one job where keys take turns takes a short way: it hands out, writes and answers what the long way does, or leaves it to that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import to_builtins

from tarry import NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.values.keys import all_keys, part_key
from tarry.verbs.jobs import pop

SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "turns": {"fair": True},
    "one place": {"key_concurrency": 1},
    "two places": {"fair": True, "key_concurrency": 2},
    "many places": {"fair": True, "key_concurrency": 9},
    "a rate": {"key_rate": "2/1m"},
    "all of them": {"fair": True, "key_concurrency": 2, "key_rate": "2/1m"},
    "defaults": {
        "fair": True,
        "key_concurrency": 2,
        "ttr": 7,
        "max_attempts": 3,
        "keep_finished": 60,
        "keep_dead": 3600,
    },
}
NO_MARKS = b"\x80"
"""Of holders that are missed: none. A pop that finds the field takes the long way, and does nothing else about it."""
Change = Callable[[Any, Any, Clock], object]
USUAL: dict[str, Change] = {
    "as it is": lambda topic, server, clock: None,
    "some are reserved": lambda topic, server, clock: topic.pop_many(2),
    "a pause has ended": lambda topic, server, clock: topic.pause(60),
    "another key is paused": lambda topic, server, clock: topic.pause(60, key="other"),
    "pauses of keys have ended": lambda topic, server, clock: [topic.pause(60, key=key) for key in "klm"],
    "a schedule is to come": lambda topic, server, clock: in_meta(topic, server, fires=clock.us + 5_000_000, ruled=1),
    "a consumer has a seat": lambda topic, server, clock: server.zadd(topic.verbs.keys.watch, {"one": clock.us}),
    "all jobs have keys": lambda topic, server, clock: delete_others(topic),
    "all have keys, and one is dead": lambda topic, server, clock: [
        topic.bury(topic.pop_many(1)[0]),
        delete_others(topic),
    ],
    "all have keys, and a consumer has a seat": lambda topic, server, clock: [
        delete_others(topic),
        server.zadd(topic.verbs.keys.watch, {"one": clock.us}),
    ],
    "all have keys, and a token is taken": lambda topic, server, clock: [
        delete_others(topic),
        server.delete(topic.verbs.keys.relay),
    ],
    "all have keys, and none is due soon": lambda topic, server, clock: [
        delete_others(topic),
        [topic.delete(str(n), running=True) for n in range(24) if n not in (1, 2, 3, 5, 8)],
    ],
    "the ring is ahead": lambda topic, server, clock: in_meta(topic, server, turn=clock.us + 300),
}
LEFT: dict[str, Change] = {
    "paused": lambda topic, server, clock: topic.pause(60),
    "a key is paused": lambda topic, server, clock: [topic.pause(60, key=key) for key in "klm"],
    "a reservation is over": lambda topic, server, clock: topic.pop_many(2, ttr=1),
    "a dead job is too old": lambda topic, server, clock: topic.bury(topic.pop_many(1)[0]),
    "all have keys, and a dead job is too old": lambda topic, server, clock: [
        topic.bury(topic.pop_many(1)[0]),
        delete_others(topic),
    ],
    "handed out before": lambda topic, server, clock: topic.release_many(topic.pop_many(30), delay=0),
    "a schedule is due": lambda topic, server, clock: in_meta(topic, server, fires=clock.us, ruled=1),
    "a limit of the topic": lambda topic, server, clock: topic.configure(concurrency=9),
    "bytes are counted": lambda topic, server, clock: in_meta(topic, server, bytes="-", ruled=1),
    "one attempt": lambda topic, server, clock: topic.configure(max_attempts=1),
    "the limits have changed": lambda topic, server, clock: topic.configure(key_concurrency=3),
    "the clock was set back": lambda topic, server, clock: in_meta(topic, server, turn=clock.us + 2_000_000),
    "a new minute": lambda topic, server, clock: in_meta(topic, server, minute=1),
    "damaged records": lambda topic, server, clock: server.hset(
        topic.verbs.keys.jobs, mapping={str(n): bytes(n) for n in range(24)}
    ),
    "lost records": lambda topic, server, clock: server.delete(topic.verbs.keys.jobs),
    "a turn without a job": lambda topic, server, clock: server.zadd(part_key(topic.verbs.keys, "turns"), {"a": 1}),
    "a full key": lambda topic, server, clock: server.zadd(
        part_key(topic.verbs.keys, "by_key"), {f"{key}\0!{n}": 0 for key in "klm" for n in range(9)}
    ),
}

PASSES: dict[str, Any] = {
    "a pause has ended": 70,
    "pauses of keys have ended": 70,
    "a reservation is over": 1,
    "a dead job is too old": "31d",
    "all have keys, and a dead job is too old": "31d",
}
"""The time that passes then."""


def in_meta(topic: Any, server: Any, **fields: Any) -> None:
    server.hset(topic.verbs.keys.meta, mapping=fields)


def delete_others(topic: Any) -> None:
    """Those without a key."""
    for n in range(4, 24, 5):
        topic.delete(str(n), running=True)


def filled(client: TestClient, server: Any, clock: Clock, name: str, settings: str) -> Any:
    """A topic with jobs of three keys and some without one: due, due later, with priorities."""
    topic = client.topic(name)
    topic.configure(**SETTINGS[settings])
    jobs = []
    for n in range(24):
        key = ("k", "l", "k", "m", None)[n % 5]
        priority = n % 4 if key and n % 7 == 0 else 0
        jobs.append(NewJob(n, id=str(n), key=key, priority=priority, delay=(0, 0.00001, 60, 3600)[n % 4]))
    topic.add_many(jobs)
    return topic


READS = """
local READS = {hash = {'HGETALL'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, list = {'LRANGE', 0, -1}}
local found = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  found[i] = {kind, kind == 'none' and 0 or redis.call(READS[kind][1], key, unpack(READS[kind], 2))}
end
return found
"""


def state_of(server: Any, topic: Any) -> dict[bytes, Any]:
    """What is stored, by the last word of each key, without the records of jobs, which have random nonces. In one call: five hundred ask."""
    keys = [key for key in all_keys(topic.verbs.keys) if not key.endswith(b":jobs")]
    found: dict[bytes, Any] = {
        key.rpartition(b":")[2]: dict(zip(stored[::2], stored[1::2], strict=True)) if kind == b"hash" else stored
        for key, (kind, stored) in zip(keys, server.eval(READS, len(keys), *keys), strict=True)
    }
    found[b"meta"] = {b"own_turn": b"0", **found[b"meta"]}
    found[b"meta"].pop(b"missed", None)
    return found


def told(reply: pop.PopReply) -> Any:
    """Without the nonces."""
    return {**to_builtins(reply), "jobs": [(id, value[14:], *rest) for id, value, *rest in reply.jobs]}


def popped(client: TestClient, server: Any, topic: Any, waiter: bytes, monitor: Any) -> tuple[Any, bool]:
    """What a pop answers, and whether the short way was enough."""
    call = pop.pop_step(topic.verbs.keys, 1, ttr=b"0", holder=b"me", min_jobs=1 if waiter else 0, waiter_id=waiter)
    reply = client.engine.run(call)
    server.exists("over")
    told = list(iter(lambda: monitor.next_command()["command"], "EXISTS over"))
    return reply, f"HMGET {topic.verbs.keys.meta.decode()} last ruled minute missed" not in told


@pytest.mark.parametrize(
    ("situation", "settings"),
    [
        *(("as it is", settings) for settings in SETTINGS),
        *((situation, settings) for situation in USUAL for settings in ("two places", "a rate")),
        ("pauses of keys have ended", "turns"),
        *((situation, "two places") for situation in LEFT),
    ],
)
def test_a_usual_pop_is_one_that_the_long_way_makes_too(
    client: TestClient, server: Any, clock: Clock, situation: str, settings: str
) -> None:
    topics = [filled(client, server, clock, name, settings) for name in ("short", "long")]
    in_meta(topics[1], server, missed=NO_MARKS)
    clock.advance(61)
    for topic in topics:
        topic.pop_many(1)
        in_meta(topic, server, minute=10**9)
        (USUAL | LEFT)[situation](topic, server, clock)
    clock.advance(PASSES.get(situation, 0))
    short_ways = list[bool]()
    with server.monitor() as monitor:
        for number in range(14):
            replies = [popped(client, server, topic, (b"", b"one")[number % 2], monitor) for topic in topics]
            assert told(replies[0][0]) == told(replies[1][0])
            assert state_of(server, topics[0]) == state_of(server, topics[1])
            assert not replies[1][1]
            short_ways.append(replies[0][1])
    assert any(short_ways) if situation in USUAL else not short_ways[0]
