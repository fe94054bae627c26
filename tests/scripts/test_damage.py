"""Damaged records in a topic are set aside or dropped, and the other jobs are handed out."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from tarry import BodyError, NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs import settle
from tarry.verbs.jobs.holders import TOO_YOUNG, last_receipt
from tarry.verbs.jobs.pop import pop_step

FLAGS_AT, HEAD = 7, 14
"""The head of a job with an id of its own: a moment, flags, a nonce; then what further flags name."""


def with_flags(value: bytes, more: int) -> bytes:
    return value[:FLAGS_AT] + bytes([value[FLAGS_AT] | more]) + value[FLAGS_AT + 1 :]


DAMAGED = {
    "further flags": lambda value: with_flags(value[:HEAD], 128) + b"\x40\x00" + value[HEAD:],
    "all flags": lambda value: with_flags(value, 255),
    "a moment that nobody wrote": lambda value: value[: FLAGS_AT - 1] + b"\x10" + value[FLAGS_AT:],
    "nothing": lambda value: b"",
    "a byte": lambda value: value[:1],
    "a moment only": lambda value: value[:FLAGS_AT],
    "half a head": lambda value: value[: HEAD // 2],
    "all but a byte of the head": lambda value: value[: HEAD - 1],
    "a TTR beyond its end": lambda value: with_flags(value[:HEAD], 32) + b"1",
    "headers beyond its end": lambda value: with_flags(value[:HEAD], 16) + b"\xff\xff" + value[HEAD:],
    "a maximum lateness, and headers beyond its end": lambda value: (
        with_flags(value[:HEAD], 144) + b"\x01\x00" + value[HEAD:]
    ),
}
BAD_HEADERS = [b"?" * 12, b'{"trace":1}', b'["a", "b"]', b'{"a": "\xff"}', b"\xff" * 12, b"[" * 4000, b'{"a": "']
BAD_MOMENTS = [struct.pack("<d", number) for number in (math.nan, math.inf, -math.inf, -1e300, 1e300, -1.0)]


def counts(topic: Any) -> dict[str, int]:
    stats = topic.stats()
    return {name: getattr(stats, name) for name in ("ready", "reserved", "dead", "lost")}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_job_with_an_unknown_flag_is_dead_and_the_others_are_handed_out(topic: Any, server: Any, damage: Any) -> None:
    topic.add_many([NewJob(n, id=n) for n in "abc"])
    keys = topic.verbs.keys
    server.hset(keys.jobs, "a", damage(server.hget(keys.jobs, "a")))
    assert [job.id for job in topic.pop_many(10)] == ["b", "c"]
    assert counts(topic) == {"ready": 0, "reserved": 2, "dead": 1, "lost": 0}
    dead = topic.get("a")
    assert dead.reason.startswith(("unknown flags", "damaged"))
    assert dead.error
    for read in (lambda: dead.body, lambda: dead.raw, lambda: dead.headers, lambda: dead.created):
        with pytest.raises(BodyError):
            read()
    assert topic.delete("a") == "dead"


def with_headers(value: bytes, headers: bytes) -> bytes:
    """A record whose headers are others, which end where its body begins."""
    (size,) = struct.unpack_from("<H", value, HEAD)
    return value[:HEAD] + struct.pack("<H", len(headers)) + headers + value[HEAD + 2 + size :]


@pytest.mark.parametrize("headers", BAD_HEADERS, ids=lambda raw: repr(raw[:12]))
def test_damaged_headers_affect_no_other_job(topic: Any, server: Any, headers: bytes) -> None:
    topic.add_many([NewJob(n, id=n, headers={"trace": n}) for n in "abc"])
    keys = topic.verbs.keys
    server.hset(keys.jobs, "b", with_headers(server.hget(keys.jobs, "b"), headers))
    assert [fault.partition(":")[0] for fault in topic.check().faults] == ["b"]
    assert [job.id for job in topic.list()] == ["a", "b", "c"]
    for jobs in (topic.get_many(list("abc")), topic.pop_many(3)):
        assert [job.body for job in jobs] == ["a", "b", "c"], "bodies can be read"
        assert [jobs[0].headers, jobs[2].headers] == [{"trace": "a"}, {"trace": "c"}]
        with pytest.raises(BodyError, match="damaged"):
            _ = jobs[1].headers
    topic.finish_many(jobs)
    assert topic.check().ok


@pytest.mark.parametrize("moment", BAD_MOMENTS, ids=lambda raw: str(struct.unpack("<d", raw)[0]))
def test_invalid_times_raise_nowhere(topic: Any, server: Any, moment: bytes) -> None:
    topic.add("tea", id="a", max_lateness="1h")
    keys = topic.verbs.keys
    value = server.hget(keys.jobs, "a")
    server.hset(
        keys.jobs, "a", moment[: FLAGS_AT - 1] + b"\0" + value[FLAGS_AT : HEAD + 2] + moment + value[HEAD + 10 :]
    )
    assert topic.get("a").created is not None
    assert topic.get("a").head.max_lateness_us is not None
    assert [job.body for job in topic.list()] == ["tea"]
    topic.pop_many(10)
    server.hset(keys.runs, "a", struct.pack("<II", 1, 0) + moment + moment + b"\0")
    now = topic.get("a")
    assert now.receipt is None or now.receipt > 0
    assert now.first_failure is None or now.first_failure.year >= 1970


def test_an_id_that_is_not_text_affects_no_other_job(topic: Any, server: Any) -> None:
    topic.add_many([NewJob(n, id=n) for n in "ab"])
    keys = topic.verbs.keys
    server.hset(keys.jobs, b"\xff\xfe", server.hget(keys.jobs, "a"))
    server.zadd(keys.due, {b"\xff\xfe": 1})
    assert len(topic.list()) == 3
    assert {job.body for job in topic.pop_many(10)} == {"a", "b"}


def test_a_pop_that_finds_only_unknown_formats_tries_again(topic: Any, server: Any) -> None:
    topic.add_many([NewJob(n, id=f"{n:03}") for n in range(700)])
    keys = topic.verbs.keys
    broken = {f"{n:03}": b"\x07rest" for n in range(650)}
    server.hset(keys.jobs, mapping=broken)
    assert topic.pop().id == "650"
    assert counts(topic) == {"ready": 49, "reserved": 1, "dead": 650, "lost": 0}
    assert topic.kick("000") == "dead"
    assert topic.pop_many(1000)[0].id == "651"


def test_a_job_without_a_record_is_dropped_and_counted(topic: Any, server: Any, clock: Clock) -> None:
    topic.add_many([NewJob(n, id=n) for n in "abcd"])
    keys = topic.verbs.keys
    topic.release(topic.pop(), delay=0)
    clock.advance(1)
    server.hdel(keys.jobs, "a", "b")
    assert [job.id for job in topic.pop_many(10)] == ["c", "d"]
    assert counts(topic) == {"ready": 0, "reserved": 2, "dead": 0, "lost": 2}
    assert topic.check().ok, "nothing of them is left"


@pytest.mark.parametrize("run", [b"", b"\x00", b"x" * 24, b"\xff" * 25, b"\xff" * 400], ids=len)
def test_damaged_run_records_raise_nowhere(topic: Any, server: Any, clock: Clock, run: bytes) -> None:
    topic.add_many([NewJob(n, id=n) for n in "abcdef"])
    jobs = topic.pop_many(6, ttr=10)
    keys = topic.verbs.keys
    for id in "abcdef":
        server.hset(keys.runs, id, run)
    for verb, options in ((settle.FINISH, {}), (settle.TOUCH, {"ttr": None}), (settle.BURY, {})):
        topic.engine.run(verb.call(keys, verb.encode(jobs[:1], **options)))
    topic.engine.run(settle.RELEASE.call(keys, settle.RELEASE.encode(jobs[1:2], delay=0)))
    clock.advance(20)
    topic.pop()
    topic.delete("c")
    assert topic.check().ok
    topic.list(limit=1000)


HOSTILE = [
    "'; redis.call('FLUSHALL') --",
    "]] .. redis.call('FLUSHALL') .. [[",
    "%s%d%n",
    "\\0\\n",
    "-1",
    "+inf",
    "(5",
    "nan",
    "0",
    "*",
    "@1",
    "a" * 200,
    "测" * 66,
    "e1700000000000000",
    "1e308",
]


def test_hostile_ids_work_like_any_other(topic: Any, clock: Clock) -> None:
    topic.add_many([NewJob(id, id=id, delay=5) for id in HOSTILE])
    assert topic.reschedule_many(HOSTILE, delay=0) == ["delayed"] * len(HOSTILE)
    assert [info.id for info in topic.get_many(HOSTILE)] == HOSTILE
    jobs = topic.pop_many(100)
    assert sorted(job.id for job in jobs) == sorted(HOSTILE)
    assert all(job.id == job.body for job in jobs)
    topic.touch_many(jobs, ttr=60)
    topic.release_many(jobs, delay=0)
    clock.advance(1)
    topic.bury_many(topic.pop_many(100), reason="a reason with 'quotes' and %s")
    assert sorted(info.id for info in topic.list("dead")) == sorted(HOSTILE)
    assert topic.kick_many(HOSTILE) == ["dead"] * len(HOSTILE)
    topic.finish_many(topic.pop_many(100))
    assert topic.list().jobs == ()
    assert topic.check().ok


def test_times_of_sixteen_digits_stay_exact(client: TestClient, topic: Any, server: Any, clock: Clock) -> None:
    """%.14g, which is how Lua writes a number, would cut them."""
    clock.us = 1_899_999_999_999_999
    clock.drive(client.engine.runner)
    keys = topic.verbs.keys
    added = topic.add("tea", id="7", delay="1us")
    assert server.zscore(keys.due, "7") == clock.us + 1 == added.due.timestamp() * 1e6
    clock.advance("1us")
    job = topic.pop(ttr="2.000003s")
    assert (job.receipt, server.hget(keys.meta, "last")) == (clock.us, b"%d" % clock.us)
    assert server.zscore(keys.reserved, "7") == clock.us + 2_000_003
    topic.touch(job, ttr="1.000001s")
    assert server.zscore(keys.reserved, "7") == clock.us + 1_000_001
    topic.pause("3.000007s")
    assert server.hget(keys.meta, "paused") == b"%d" % (clock.us + 3_000_007)
    topic.resume()
    topic.bury(job)
    assert server.zscore(keys.dead, "7") == clock.us
    topic.kick("7")
    assert server.zscore(keys.due, "7") == clock.us - 1
    topic.reschedule("7", delay="5us")
    assert server.zscore(keys.due, "7") == clock.us + 5
    clock.advance("1ms")
    assert topic.pop().receipt == clock.us


def test_counts_of_sixteen_digits_stay_exact(topic: Any, server: Any) -> None:
    server.hset(topic.verbs.keys.meta, "n:finished", 2**53 - 2)
    topic.add("tea")
    topic.finish(topic.pop())
    assert topic.stats().finished == 2**53 - 1


def test_receipts_rise_even_when_the_clock_is_set_back(topic: Any, client: TestClient) -> None:
    """Promise: Receipts; Stale."""
    topic.add("tea", ttr=1000)
    first = topic.pop()
    topic.release(first, delay=0, counted=False)
    back = Clock(client.clock.us - 60_000_000)
    back.drive(client.engine.runner)
    topic.reschedule(first.id, delay=0)
    assert topic.pop().receipt == first.receipt + 1


@pytest.mark.parametrize(
    "last", [b"", b"tea", b"nan", b"inf", b"-inf", b"1e300", b"0.5", b"9" * 400, b"9007199254740991"]
)
@pytest.mark.parametrize("by_id", [False, True], ids=["pop", "pop_by_id"])
def test_a_damaged_last_receipt_is_repaired_by_the_next_pop(
    topic: Any, server: Any, clock: Clock, last: bytes, by_id: bool
) -> None:
    topic.add_many([NewJob(n, id=n) for n in "abc"])
    before = topic.pop(ttr="1h").receipt
    clock.advance(1)
    meta = topic.verbs.keys.meta
    server.hset(meta, "last", last)
    assert topic.stats().reserved == 1, "views can be read"
    topic.engine.run(last_receipt(topic.verbs.keys))
    job = topic.engine.run(topic.verbs.pop_by_id("b", ("ready",))) if by_id else topic.pop()
    assert job.receipt == clock.us == int(server.hget(meta, "last"))
    assert job.receipt > before
    assert topic.pop().receipt == job.receipt + 1, "receipts go on to rise"


@pytest.mark.parametrize("last", [b"tea", b"inf"])
def test_jobs_of_an_absent_holder_come_back_where_the_last_receipt_is_damaged(
    topic: Any, server: Any, clock: Clock, last: bytes
) -> None:
    topic.add("tea")
    verbs = topic.verbs
    topic.engine.run(pop_step(verbs.keys, 1, ttr=b"0", holder=b"shop:1:WORD"))
    server.hset(verbs.keys.meta, "last", last)
    run = topic.engine.run
    assert run(verbs.release_absent("shop:1:WORD", b"7")) == TOO_YOUNG
    clock.advance(1)
    assert run(verbs.release_absent("shop:1:WORD", b"7")) == 1


def test_stats_count_what_is_damaged_and_not_what_is_moving(topic: Any, server: Any) -> None:
    topic.add_many([NewJob(n, id=n) for n in "abcd"])
    keys = topic.verbs.keys
    assert topic.stats().damaged == 0
    server.hdel(keys.jobs, "a")
    assert topic.stats().damaged == 1, "a place without a record"
    server.hdel(keys.jobs, "b")
    assert topic.stats().damaged == 2
    topic.purge()
    topic.add_many([NewJob(n, id=n) for n in "abcd"])
    server.zrem(keys.due, "c")
    assert topic.stats().damaged == 1, "a record without a place"
