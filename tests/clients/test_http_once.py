"""A client of a service checks what it is given once: a body is encoded once, and one id is made for a job."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tarry
from tarry.errors import BadInput
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Timing


class CountingCodec:
    """Counts what it encodes."""

    def __init__(self) -> None:
        self.encoded = 0

    def encode(self, body: Any, /) -> bytes:
        self.encoded += 1
        return json.dumps(body).encode()

    def decode(self, raw: bytes, /) -> Any:
        return json.loads(raw)


class CountingIds:
    """Counts the ids that it makes."""

    def __init__(self) -> None:
        self.made = 0

    def new(self) -> bytes:
        self.made += 1
        return b"id-%d" % self.made


def test_a_body_is_encoded_once() -> None:
    codec = CountingCodec()
    client = tarry.HTTPClient("http://127.0.0.1:1")
    topic = client.topic("orders", type=codec)
    verbs: Any = topic.verbs
    verbs.add({"order": 7}, JobOptions(), None)
    assert codec.encoded == 1
    verbs.add_many([1, tarry.NewJob(2, delay=5)], JobOptions(), atomic=False)
    assert codec.encoded == 3
    schedules: Any = client.schedules._verbs
    schedules.put(topic, "hourly", {"list": 1}, Timing(every=3600), JobOptions())
    assert codec.encoded == 4


def test_one_id_is_made_for_a_job() -> None:
    client: Any = tarry.HTTPClient("http://127.0.0.1:1")
    client.engine.config._ids = ids = CountingIds()
    verbs = client.topic("orders").verbs
    request = verbs.add({"order": 7}, JobOptions(), None)
    assert (ids.made, request.body.id) == (1, "id-1")
    verbs.add_many([1, 2], JobOptions(), atomic=False)
    assert ids.made == 3


def test_of_many_jobs_the_wrong_one_is_named_before_anything_is_sent() -> None:
    topic = tarry.HTTPClient("http://127.0.0.1:1", patience=0).topic("orders")
    with pytest.raises(BadInput, match="job 1: ttr"):
        topic.add_many([1, tarry.NewJob(2, ttr=-1)])
    with pytest.raises(BadInput, match="job 2: id: 'a' is given twice"):
        topic.add_many([1, tarry.NewJob(2, id="a"), tarry.NewJob(3, id="a")])
    with pytest.raises(BadInput, match="atomic: too much for one script"):
        topic.add_many(list(range(1001)), atomic=True)
