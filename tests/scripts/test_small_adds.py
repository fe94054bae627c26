"""A plain job that is added alone takes a small script with the keys that it needs; whatever that cannot judge takes the large one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timezone
from itertools import count, product
from typing import Any

import pytest

from tarry import JobExists, NewJob, TopicFull
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.core.requests import ScriptCall
from tarry.verbs.jobs.add import add_job
from tarry.verbs.jobs.options import HORIZON_US, JobOptions
from tarry.verbs.jobs.topic_context import ADD, ADD_LATER, ADD_SOON, ADD_WITH_KEY
from walked import cases

US = 1e-6
SECOND = 1_000_000
HORIZON = HORIZON_US * US
Y2027, EPOCH = datetime(2027, 2, 3, tzinfo=timezone.utc), datetime(1970, 1, 1, tzinfo=timezone.utc)
EACH_WAY: list[dict[str, Any]] = [{}, {"delay": "1h"}, {"at": Y2027, "priority": 1}]
PLAIN: list[dict[str, Any]] = [
    {},
    {"delay": 5},
    {"delay": HORIZON},
    {"delay": HORIZON + US},
    {"delay": "10d"},
    {"at": Y2027},
    {"at": EPOCH},
    {"delay": 60, "ttr": 7, "max_attempts": 3, "headers": {"a": "b"}, "max_lateness": 3},
]
SITUATIONS = {
    "plain": lambda topic, server, now: None,
    "paused": lambda topic, server, now: topic.pause("1h"),
    "at its concurrency limit": lambda topic, server, now: (topic.configure(concurrency=1), topic.pop()),
    "with a consumer": lambda topic, server, now: server.zadd(topic.verbs.keys.watch, {"one": now + 2_000_000}),
    "with two": lambda topic, server, now: server.zadd(topic.verbs.keys.watch, {"one": now, "two": now + 100}),
}
"""Made before the add, in a topic that may have a job."""
numbers = count()
"""Of the topics that a test has."""


def adding(topic: Any, id: str | None = None, **options: Any) -> ScriptCall[Any]:
    """With a nonce that is always the same. It is known that the topic has no limits for producers."""
    context = topic.verbs.context
    context.leases.learn(context.keys, topic.engine._clock.us)
    call: ScriptCall[Any] = add_job(context, "tea", JobOptions(**options).encode(), id)
    if id is not None:
        id_bytes, mark_and_due, value = call.items
        call.items = (id_bytes, mark_and_due, value[:1] + b"nonce." + value[7:])
    return call


@pytest.mark.parametrize(
    ("options", "script"),
    [
        ({}, ADD_SOON),
        ({"delay": HORIZON}, ADD_SOON),
        ({"delay": HORIZON + US}, ADD_LATER),
        ({"delay": "10d", "id": "7"}, ADD_LATER),
        ({"id": "7"}, ADD_SOON),
        ({"at": Y2027}, ADD_SOON),
        ({"delay": 60, "ttr": 7, "headers": {"a": "b"}}, ADD_LATER),
        ({"delay": 60, "priority": 1}, None),
        ({"delay": 60, "key": "k"}, ADD_WITH_KEY),
        ({"key": "k", "id": "7"}, ADD_WITH_KEY),
        ({"key": "k", "priority": 1}, None),
        ({"delay": 60, "id": "7", "if_exists": "keep"}, None),
        ({"delay": 60, "id": "7", "if_exists": "replace"}, None),
        ({"delay": 60, "if_exists": "replace"}, ADD_LATER),
    ],
    ids=str,
)
def test_the_options_decide_which_script_adds_a_job(topic: Any, options: dict[str, Any], script: Any) -> None:
    call = adding(topic, **options)
    assert (call.small and call.small.script) is script
    assert (call.script, call.as_replay().small) == (ADD, None)


@pytest.mark.parametrize("modes", [["error", "keep", "replace", "update"], ["once"]])
def test_only_an_add_that_says_once_has_the_keys_of_the_history(topic: Any, server: Any, modes: list[str]) -> None:
    """What the server is sent: alone, delayed, with a priority, many, and again, by a client that knows that the topic has no limits or does not."""
    topic.configure(keep_finished="1d")
    begin = topic.verbs.keys.due.removesuffix(b"due").decode()
    history = {f"{begin}finished", f"{begin}results"}
    with server.monitor() as monitor:
        for n, if_exists in enumerate(modes):
            for given in EACH_WAY:
                with suppress(JobExists):
                    topic.add("tea", id="7", if_exists=if_exists, **given)
                topic.add("tea", id=f"{if_exists} {len(given)} {n}", if_exists=if_exists, **given)
            topic.add_many([NewJob("tea", id=f"{n} {number}") for number in range(3)], if_exists=if_exists)
        if modes != ["once"]:
            topic.add_many(["tea", "tea"])
            topic.add("tea", delay="1h")
            topic.add("tea")
        server.exists("over")
        told = iter(lambda: monitor.next_command()["command"], "EXISTS over")
        sent = [set(command.split()) for command in told if command.startswith("EVAL") and f"{begin}due" in command]
    assert len(sent) > 5
    assert {frozenset(history & words) for words in sent} == {frozenset(history if modes == ["once"] else [])}


WRITTEN = """
local READS = {hash = {'HGETALL'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, list = {'LRANGE', 0, -1}}
local found = {}
for i, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  found[i] = {key, kind, redis.call(READS[kind][1], key, unpack(READS[kind], 2))}
end
return found
"""


def written(topic: Any, server: Any) -> dict[bytes, Any]:
    """All that the topic has, without its name; in one call, for this is asked two thousand times."""
    begin = topic.verbs.keys.due.removesuffix(b"due")
    return {
        key.removeprefix(begin): dict(zip(told[::2], told[1::2], strict=True)) if kind == b"hash" else told
        for key, kind, told in server.eval(WRITTEN, 0, begin + b"*")
    }


def forget(topic: Any, server: Any) -> None:
    """Each look at what is written goes through all keys of the server: those of a case go with it."""
    server.delete(*server.keys(topic.verbs.keys.due.removesuffix(b"due") + b"*"))


@pytest.mark.parametrize("situation", SITUATIONS)
@cases("earlier", [None, 0, 3, 600])
@cases("options", PLAIN)
def test_the_small_script_writes_and_answers_what_the_large_one_does(
    client: TestClient, server: Any, clock: Clock, options: dict[str, Any], earlier: float | None, situation: str
) -> None:
    seen: dict[str, list[Any]] = {"small": [], "large": []}
    for name, told in seen.items():
        topic = client.topic(f"{name} {next(numbers)}")
        if earlier is not None:
            topic.engine.run(adding(topic, "before", delay=earlier))
        SITUATIONS[situation](topic, server, clock.us)
        for id in ("a", "b"):
            call = adding(topic, id, **options)
            assert call.small is not None
            answer = client.engine.run(call if name == "small" else call.as_large())
            told.append((answer, written(topic, server)))
        forget(topic, server)
    assert seen["small"] == seen["large"]


LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "fair": {"fair": True},
    "one place": {"key_concurrency": 1},
    "two fair places": {"key_concurrency": 2, "fair": True},
    "a rate": {"key_rate": "1/1m", "fair": True},
}


WITH_KEYS = [
    *product(
        LIMITS,
        ["plain", "paused", "with a consumer", "popped", "of another key", "its key is paused"],
        [0, 3, 600],
        [{}, {"delay": 5}, {"delay": "1h"}, {"at": Y2027}, PLAIN[-1]],
    )
]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_the_small_script_adds_a_job_with_a_key_as_the_large_one_does(
    client: TestClient, server: Any, clock: Clock, every: int
) -> None:
    """Every fourth row has each two of what a row is made of."""
    for row in WITH_KEYS[::every]:
        seen = adds_with_a_key(client, server, clock, *row)
        assert seen["small"] == seen["large"], row


def adds_with_a_key(
    client: TestClient, server: Any, clock: Clock, limits: str, situation: str, earlier: float, options: dict[str, Any]
) -> dict[str, list[Any]]:
    seen: dict[str, list[Any]] = {"small": [], "large": []}
    for name, told in seen.items():
        topic = client.topic(f"{name} {next(numbers)}")
        topic.configure(**LIMITS[limits])
        client.engine.run(adding(topic, "before", delay=earlier, key="k").as_large())
        if situation == "popped":
            topic.pop()
        elif situation == "its key is paused":
            topic.pause("1h", key="k")
        else:
            SITUATIONS.get(situation, SITUATIONS["plain"])(topic, server, clock.us)
        for id in ("a", "b"):
            call = adding(topic, id, key="l" if situation == "of another key" else "k", **options)
            assert call.small is not None
            answer = client.engine.run(call if name == "small" else call.as_large())
            told.append((answer, written(topic, server)))
        forget(topic, server)
    return seen


@pytest.mark.parametrize("delay", [0, 60])
def test_a_taken_id_is_refused_with_the_state_of_its_job(topic: Any, server: Any, clock: Clock, delay: int) -> None:
    topic.add("old", id="7")
    job = topic.pop()
    before = server.hgetall(topic.verbs.keys.jobs)
    with pytest.raises(JobExists, match="reserved"):
        topic.add("new", id="7", delay=delay)
    topic.bury(job)
    with pytest.raises(JobExists, match="dead"):
        topic.add("new", id="7", delay=delay)
    assert server.hgetall(topic.verbs.keys.jobs) == before
    assert topic.stats().repeated == 0


def small(
    client: TestClient, topic: Any, clock: Clock, script: Any, item: tuple[bytes, ...], lease: int | bytes
) -> int:
    """What a small script answers to an add that is sent with a lease."""
    client.engine.runner.clock = b"%d %s" % (clock.us, str(lease).encode() if lease else b"")
    call: ScriptCall[int] = ScriptCall(script, script.keys_for(topic.verbs.keys), (), int, items=item)
    answer = client.engine.run(call)
    clock.advance(0)
    return answer


GOOD = {ADD_LATER: (b"10", b"e60000000", b"\x00new"), ADD_SOON: (b"10", b"e0", b"\x00new")}


@pytest.mark.parametrize("script", [ADD_LATER, ADD_SOON])
def test_a_small_script_writes_nothing_where_it_does_not_judge(
    client: TestClient, topic: Any, server: Any, clock: Clock, script: Any
) -> None:
    topic.add("old", id="7", delay="1h")
    before = written(topic, server)
    items = {
        "the id is taken": (b"7", b"e60000000", b"\x00new"),
        "beyond 9999": (b"8", b"e253402300800000000", b"\x00new"),
        "in 1970, or no delay": (b"9", b"e@0" if script is ADD_SOON else b"e0", b"\x00new"),
        "not beyond the horizon": (b"9", b"e%d" % HORIZON_US, b"\x00new")
        if script is ADD_LATER
        else (b"7", b"e0", b"\x00"),
    }
    second = clock.us // SECOND
    for why, (item, lease) in {
        **{why: (item, second) for why, item in items.items()},
        "no lease": (GOOD[script], b""),
        "the second before": (GOOD[script], second - 1),
        "the second after": (GOOD[script], second + 1),
    }.items():
        assert small(client, topic, clock, script, item, lease) == 0, why
        assert written(topic, server) == before, why
    assert small(client, topic, clock, script, GOOD[script], second) != 0


def test_a_microsecond_beyond_the_horizon_is_late_enough(client: TestClient, topic: Any, clock: Clock) -> None:
    """So the horizon of the client is that of the scripts."""
    item = (b"7", b"e%d" % (HORIZON_US + 1), b"\x00new")
    assert small(client, topic, clock, ADD_LATER, item, clock.us // SECOND) > 0


def test_adds_of_one_turn_are_one_large_script_of_all_kinds(
    client: TestClient, valkey_url: str, clock: Clock, topic: Any, server: Any
) -> None:
    async def act() -> list[Any]:
        async with TestAsyncClient(valkey_url, clock, namespace=client.namespace) as awaiting:
            same = awaiting.topic("t")
            await same.add("before", id="taken")
            before = server.info("commandstats")
            some = [
                same.add("a", delay=60),
                same.add("b", id="b", delay=60),
                same.add("c", id="taken"),
                same.add("d", delay=60, priority=2),
                same.add("e", delay=60),
                same.add("f", id="taken", if_exists="keep"),
            ]
            answers = await asyncio.gather(*some, return_exceptions=True)
            after = server.info("commandstats")
            calls = [told.get("cmdstat_evalsha", {"calls": 0})["calls"] for told in (before, after)]
            return [*answers, calls[1] - calls[0]]

    *answers, scripts = asyncio.run(act())
    assert [isinstance(one, JobExists) for one in answers] == [False, False, True, False, False, False]
    assert scripts == 1
    jobs = {job.body: job for job in topic.list("delayed", limit=10)}
    first = jobs["a"].due
    assert [(jobs[body].due - first).microseconds for body in "abde"] == [0, 1, 3, 4]


def test_a_limit_for_producers_holds_within_a_second(
    client: TestClient, valkey_url: str, clock: Clock, topic: Any
) -> None:
    """The bytes are counted only then, so none is missed."""
    topic.add("a")  # asks, and learns that there is none
    with TestClient(valkey_url, clock, namespace=client.namespace) as other:
        other.topic("t").configure(max_pending=1, max_pending_bytes=100)
        with pytest.raises(TopicFull):
            other.topic("t").add("without one")
        topic.add("under its lease")
    clock.advance("999ms")
    on_the_way = adding(topic, "late")
    assert on_the_way.small is not None
    clock.advance("1ms")
    with pytest.raises(TopicFull):
        client.engine.run(on_the_way)
    with pytest.raises(TopicFull):
        topic.add("in the next second", delay=60)
    assert topic.stats().pending_bytes == sum(map(len, ('"a"', '"under its lease"')))
