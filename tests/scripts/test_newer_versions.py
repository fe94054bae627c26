"""Records of a newer version of tarry: set aside, left alone or refused with an error, and never lost.

The rule, for each kind of key, is docs/decisions/0023-what-is-stored-has-a-rule.md.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import msgspec
import pytest

import tarry
from tarry import BodyError, NewJob, ServerUnfit
from tarry.clients.testing import Clock, TestClient
from tarry.values.keys import part_key, tokens_key, worker_keys
from tarry.verbs import tokens, workers
from tarry.verbs.jobs.topic_migration import depart

FLAGS_AT, HEAD_SIZE, FURTHER = 7, 14, 128
"""Of a job with an id of its own."""
HEAD = Struct("<BBddIIHI")
"""Of a schedule."""


def with_further_flags(value: bytes, further: int) -> bytes:
    flags = bytes([value[FLAGS_AT] | FURTHER])
    return value[:FLAGS_AT] + flags + value[FLAGS_AT + 1 : HEAD_SIZE] + Struct("<H").pack(further) + value[HEAD_SIZE:]


NEWER = {
    "a flag beside ours": lambda value: with_further_flags(value, 64),
    "a flag with ours": lambda value: with_further_flags(value, 65),
    "the highest flag": lambda value: with_further_flags(value, 2**15),
}


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_a_job_of_a_newer_format_is_dead_until_the_process_is_upgraded(topic: Any, server: Any, newer: Any) -> None:
    topic.add_many([NewJob("tea", id="newer", headers={"a": "b"}), NewJob("rice", id="known")])
    jobs = topic.verbs.keys.jobs
    record = server.hget(jobs, "newer")
    server.hset(jobs, "newer", newer(record))
    assert [job.id for job in topic.pop_many(5)] == ["known"]
    seen = topic.get("newer")
    assert (seen.state, seen.reason.rpartition(" ")[0]) == ("dead", "unknown flags")
    assert seen.error == "written by a newer version of tarry"
    for read in (lambda: seen.body, lambda: seen.raw, lambda: seen.headers):
        with pytest.raises(BodyError, match="newer version of tarry"):
            read()
    assert server.hget(jobs, "newer") == newer(record), "as it was written"
    assert topic.check().ok
    server.hset(jobs, "newer", record)  # as if this process could read it now
    assert topic.kick("newer") == "dead"
    job = topic.pop()
    assert (job.body, job.headers, job.attempt) == ("tea", {"a": "b"}, 1)


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_a_job_of_a_newer_format_migrates_unchanged(client: TestClient, topic: Any, server: Any, newer: Any) -> None:
    topic.add("tea", id="newer", delay="1h")
    record = newer(server.hget(topic.verbs.keys.jobs, "newer"))
    server.hset(topic.verbs.keys.jobs, "newer", record)
    other = client.topic("another")
    assert client.migrate(topic, other).moved == 1
    assert server.hget(other.engine.config.verbs("another", None).keys.jobs, "newer") == record


def test_a_departing_job_with_an_unknown_state_stays(client: TestClient, topic: Any, server: Any) -> None:
    topic.add("tea", id="tea", delay="1h")
    leaving = part_key(topic.verbs.keys, "leaving")
    client.engine.run(depart(topic.verbs.keys, b"word"))
    known = server.hget(leaving, "tea")
    server.hset(leaving, "tea", b"asleep " + known.split()[1])
    with pytest.raises(ServerUnfit, match="newer version of tarry wrote the place of the job tea"):
        client.migrate(topic, client.topic("another"))
    assert client.topic("another").get("tea") is None
    server.hset(leaving, "tea", known)
    assert client.migrate(topic, client.topic("another")).moved == 1


def test_unknown_fields_of_a_topic_are_left_alone(topic: Any, server: Any, clock: Clock) -> None:
    meta = topic.verbs.keys.meta
    topic.add_many(["a", "b"])
    server.hset(meta, mapping={"weather": "fine", "n:frozen": "7"})
    topic.configure(ttr="5m")
    topic.pause("1m")
    clock.advance("1m")
    topic.finish(topic.pop())
    assert topic.stats().finished == 1
    topic.purge()
    assert server.hmget(meta, "weather", "n:frozen") == [b"fine", b"7"]


def test_unreadable_limits_hand_out_nothing_and_raise(topic: Any, server: Any, clock: Clock) -> None:
    meta = topic.verbs.keys.meta
    topic.configure(rate="100/1s")
    known = server.hget(meta, "limited")
    server.hset(meta, "limited", known + b" 7")
    topic.add("tea", id="tea")
    for _ in range(2):
        with pytest.raises(ServerUnfit, match=r"newer version of tarry wrote the limits of the topic.*upgrade"):
            topic.pop()
    assert topic.stats().ready == 1
    assert topic.kick("tea") == "ready"
    server.hset(meta, "limited", known)
    clock.advance("1s")
    assert topic.pop().body == "tea"


@pytest.mark.parametrize("stored", ["8 by range", "8,2"])
def test_partitions_in_another_format_are_refused_with_a_message(client: TestClient, server: Any, stored: str) -> None:
    keys = client.topic("told").verbs.keys
    server.mset({keys.meta: stored, keys.jobs: stored})
    for verb in (lambda topic: topic.pop(), lambda topic: topic.add("tea"), lambda topic: topic.stats()):
        with pytest.raises(ServerUnfit, match="newer version of tarry wrote the partitions"):
            verb(client.topic("told"))
    assert server.get(keys.meta) == stored.encode()


def test_a_schedule_of_a_newer_format_is_left_to_newer_versions(
    client: TestClient, topic: Any, server: Any, clock: Clock
) -> None:
    for name in ("newer", "known"):
        client.schedules.put(topic.name, name, name, every="1h")
    plans, times = (part_key(topic.verbs.keys, part) for part in ("plans", "schedules"))
    stored = server.hget(plans, "newer")
    ours = b"\x02" + stored[1:]
    server.hset(plans, "newer", ours)
    clock.advance("1h")
    job = topic.pop(ttr="1d")
    assert job.body == "known", "the others are attended to"
    assert topic.pop() is None
    assert server.hget(plans, "newer") == ours
    assert server.zscore(times, "newer") == clock.us + 60_000_000, "looked at again in a minute"
    assert [(one.id, one.damaged) for one in client.schedules.list(topic.name)] == [("newer", True), ("known", False)]
    for verb in (client.schedules.pause, client.schedules.resume):
        with pytest.raises(tarry.TarryError, match="newer version of tarry wrote"):
            verb(topic.name, "newer")
    assert server.hget(plans, "newer") == ours
    server.hset(plans, "newer", stored)  # as if this process could read it now
    clock.advance("1m")
    assert topic.pop().body == "newer", "its occurrence was not lost"
    server.hset(plans, "newer", ours)
    assert client.schedules.delete(topic.name, "newer")


def test_a_schedule_with_unknown_fields_is_read(client: TestClient, topic: Any, server: Any) -> None:
    client.schedules.put(topic.name, "report", every="1h")
    plans = part_key(topic.verbs.keys, "plans")
    stored = server.hget(plans, "report")
    head, rest = HEAD.unpack_from(stored), stored[HEAD.size :]
    recurrence, about = rest[: head[6]], rest[head[6] : head[6] + head[7]]
    assert about == b"{}"
    about, job = b'{"missed":"all","colour":"red"}', rest[len(recurrence) + len(about) :]
    server.hset(plans, "report", HEAD.pack(*head[:7], len(about)) + recurrence + about + job)
    found = client.schedules.get(topic.name, "report")
    assert (found.id, found.missed) == ("report", "all")


def test_an_unreadable_token_grants_nothing_and_hides_no_other(client: TestClient, server: Any) -> None:
    _, id, record = tokens.create_token(bytes, ["view"])
    client.engine.run(tokens.store_token(client.namespace, id, record))
    written = msgspec.json.decode(msgspec.json.encode(record))
    key = tokens_key(client.namespace)
    server.hset(key, "more", b"1700000000000000 " + msgspec.json.encode(written | {"colour": "red"}))
    server.hset(key, "other", b"1700000000000000 " + msgspec.json.encode(written | {"scopes": ["paint"]}))
    _, found = client.engine.run(tokens.list_tokens(client.namespace))
    assert {token.id for token in found} == {id, "more"}
    assert client.engine.run(tokens.delete_token(client.namespace, "other"))


def test_a_worker_report_with_more_fields_is_read_and_one_with_fewer_is_not(client: TestClient, server: Any) -> None:
    said = workers.WorkerReport("host", 7, "9.0", 1, 0, False, (), ())
    for name in (b"plain", b"more", b"less"):
        client.engine.run(workers.report_worker(client.namespace, name, None, said))
    hash = worker_keys(client.namespace).workers
    since, _, record = server.hget(hash, "more").partition(b" ")
    more = msgspec.json.decode(record)
    server.hset(hash, "more", since + b" " + msgspec.json.encode(more | {"colour": "red"}))
    server.hset(hash, "less", since + b" " + msgspec.json.encode({"version": "9.0"}))
    assert [(one.name, one.version) for one in client.workers()] == [("more", "9.0"), ("plain", "9.0")]


def test_a_topic_in_a_newer_layout_is_refused_before_anything_is_written(topic: Any, server: Any) -> None:
    """How a newer version locks out one that would misread it, as a topic with partitions does: ``meta`` and ``jobs`` are
    texts, and what else there is has other names."""
    topic.add_many(["tea", "rice"])
    held = topic.pop()
    keys = topic.verbs.keys
    server.delete(*keys)
    server.mset({keys.meta: "kept otherwise", keys.jobs: "kept otherwise"})
    for verb in (
        topic.pop, topic.stats, topic.pause, topic.check, lambda: topic.add("more"), lambda: topic.finish(held),
        lambda: topic.add("rice", id="rice", if_exists="replace"), lambda: topic.configure(ttr="5m"),
        lambda: topic.release(held), lambda: topic.bury(held), lambda: topic.touch(held), lambda: topic.kick(held.id),
    ):  # fmt: skip
        with pytest.raises(ServerUnfit, match="newer version of tarry"):
            verb()
    assert {key for key in keys if server.exists(key)} == {keys.meta, keys.jobs}
    assert server.mget(keys.meta, keys.jobs) == [b"kept otherwise"] * 2
