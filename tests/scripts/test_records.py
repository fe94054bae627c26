"""The record of a job: 8 bytes before its body, and each field only where a flag says so."""

from __future__ import annotations

from datetime import timedelta
from struct import Struct
from typing import Any

import pytest

from tarry import BodyError
from tarry.clients.testing import TestClient
from tarry.verbs.jobs import records, settle

FURTHER, HEAD = 128, 8


def size_of(topic: Any, server: Any, **options: Any) -> int:
    added = topic.add(b"x" * 200, **options)
    return int(server.hstrlen(topic.verbs.keys.jobs, added.id)) - 200


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 8),
        ({"id": "mine"}, 14),
        ({"priority": 3}, 8),
        ({"ttr": 60}, 12),
        ({"max_attempts": 3}, 12),
        ({"max_attempts": None}, 12),
        ({"headers": {"a": "b"}}, 8 + 2 + len('{"a":"b"}')),
        ({"max_lateness": 60}, 8 + 2 + 8),
        ({"id": "mine", "ttr": 60, "max_attempts": 3, "max_lateness": 60, "headers": {"a": "b"}}, 14 + 8 + 10 + 11),
    ],
    ids=str,
)
def test_a_field_costs_nothing_where_its_flag_is_off(topic: Any, server: Any, options: Any, size: int) -> None:
    assert size_of(topic, server, **options) == size
    (job,) = topic.list()
    assert job.raw == b"x" * 200
    for name, value in options.items():
        shown = getattr(job, name) if name != "max_lateness" else timedelta(microseconds=job.head.max_lateness_us)
        assert value == (shown.total_seconds() if hasattr(shown, "total_seconds") else shown)


def test_ten_flags_are_free_and_a_job_with_one_is_set_aside(topic: Any, server: Any) -> None:
    free = []
    for bit in range(16):
        id = topic.add("tea", delay="1h").id
        record = server.hget(topic.verbs.keys.jobs, id)
        changed = record[: HEAD - 1] + bytes([FURTHER]) + Struct("<H").pack(1 << bit) + bytes(8) + record[HEAD:]
        try:
            records.unpack_head(changed)
        except BodyError:
            free.append(bit)
            server.hset(topic.verbs.keys.jobs, id, changed)
            topic.reschedule(id, delay=0)
    assert len(free) >= 10
    assert topic.pop_many(20) == []
    assert {job.reason for job in topic.list("dead")} == {f"unknown flags {1 << bit}" for bit in free}


def test_headers_come_and_go_and_the_rest_stays(client: TestClient, topic: Any) -> None:
    topic.add("tea", id="a", ttr=90, max_lateness="1h", max_attempts=3)
    job = topic.pop()
    for headers, priority in (({"a": "b"}, 3), ({}, 1), ({"c": "d"}, None)):
        client.engine.run(settle.set_headers(topic.verbs.keys, job, headers, priority))
        seen = topic.get("a")
        assert (seen.headers, seen.body, seen.head.ttr_ms, seen.head.max_attempts) == (headers, "tea", 90_000, 3)
        assert (seen.head.max_lateness_us, seen.head.nonce) == (3_600_000_000, job.head.nonce)
        assert priority is None or seen.head.priority == priority
