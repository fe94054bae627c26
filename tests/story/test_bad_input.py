"""Invalid arguments are refused with an error, and nothing is written."""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from story.adapters import Adapter
from story.conftest import Snapshot
from tarry import BadInput, NewJob, Reservation, TarryError
from tarry.clients.testing import Clock


@dataclass
class Weighed:
    grams: float


AWARE = datetime(2030, 1, 1, tzinfo=timezone.utc)
NAIVE = AWARE.replace(tzinfo=None)

NAMES: dict[str, tuple[Any, str]] = {
    "empty": ("", "empty"),
    "201 bytes": ("x" * 201, "201 bytes"),
    "201 bytes of UTF-8": ("测" * 67, "201 bytes"),
    "newline": ("a\nb", "control character"),
    "null": ("a\x00b", "control character"),
    "delete": ("a\x7fb", "control character"),
    "C1": ("a\x85b", "control character"),
    "line separator": ("a\u2028b", "control character"),
    "opening brace": ("a{b", "control character or one of"),
    "closing brace": ("a}b", "control character or one of"),
    "blank before": (" a", "blank"),
    "blank behind": ("a ", "blank"),
    "tab behind": ("a\t", "blank"),
    "wide blank": ("\u3000a", "blank"),
    "lone surrogate": ("a\ud800", "surrogate"),
    "bytes": (b"a", "bytes is not text"),
    "float": (1.5, "float is not text"),
    "bool": (True, "bool is not text"),
}
DELAYS: dict[str, tuple[Any, str]] = {
    "negative": (-1, "negative"),
    "a little negative": (-0.001, "negative"),
    "negative timedelta": (timedelta(seconds=-1), "negative"),
    "negative text": ("-5s", "-5s is negative"),
    "negative ISO 8601": ("-PT5S", "-PT5S is negative"),
    "nan": (math.nan, "not finite"),
    "inf": (math.inf, "not finite"),
    "-inf": (-math.inf, "not finite"),
    "nan as text": ("nan", "not a duration"),
    "True": (True, "not a duration"),
    "False": (False, "not a duration"),
    "words": ("soon", "not a duration"),
    "empty": ("", "not a duration"),
    "unit first": ("m10", "not a duration"),
    "unknown unit": ("10y", "not a duration"),
    "a datetime": (AWARE, "not a duration"),
    "bytes": (b"10", "not a duration"),
    "a list": ([1], "not a duration"),
}
Verb = Callable[[Any], Awaitable[Any]]
CALLS: dict[str, tuple[Verb, str]] = {
    "naive at": (lambda t: t.add(1, at=NAIVE), "time zone"),
    "naive at of one of many": (lambda t: t.add_many([1, NewJob(2, at=NAIVE)]), "job 1: at: .*time zone"),
    "a duration as at": (lambda t: t.add(1, at=60), "use delay"),
    "an epoch as at": (
        lambda t: t.add(1, at=1_800_000_000.5),
        r"use datetime\.fromtimestamp\(1800000000\.5, timezone\.utc\)",
    ),
    "both, now": (lambda t: t.add(1, delay=0, at=AWARE), "one of the two"),
    "both for many, now": (lambda t: t.add_many([1], delay=0, at=AWARE), "one of the two"),
    "both in a job, now": (lambda t: t.add_many([NewJob(1, delay=0, at=AWARE)]), "one of the two"),
    "reschedule to both, now": (lambda t: t.reschedule("7", delay=0, at=AWARE), "one of the two"),
    "both": (lambda t: t.add(1, delay=5, at=AWARE), "one of the two"),
    "both in a job": (lambda t: t.add_many([NewJob(1, delay=5, at=AWARE)]), "one of the two"),
    "before 1970": (lambda t: t.add(1, at=datetime(1969, 1, 1, tzinfo=timezone.utc)), "1970"),
    "if_exists": (lambda t: t.add(1, if_exists="ignore"), '"error", "keep", "once", "replace" or "update"'),
    "if_exists of many": (lambda t: t.add_many([1], if_exists=None), '"error", "keep", "once", "replace" or "update"'),
    "body": (lambda t: t.add("x" * (1 << 20)), "limit"),
    "body of many": (lambda t: t.add_many([1, b"x" * (1 << 21)]), "job 1: body: .*limit"),
    "ttr 0": (lambda t: t.add(1, ttr=0), "ttr: .*too short"),
    "ttr of 50 days": (lambda t: t.add(1, ttr="50d"), "49 days"),
    "pop ttr 0": (lambda t: t.pop(ttr=0), "ttr: .*too short"),
    "pop ttr negative": (lambda t: t.pop(ttr=-5), "ttr: .*negative"),
    "max_attempts 0": (lambda t: t.add(1, max_attempts=0), "max_attempts"),
    "max_attempts -1": (lambda t: t.add(1, max_attempts=-1), "max_attempts"),
    "max_attempts -2": (lambda t: t.add(1, max_attempts=-2), "max_attempts"),
    "max_attempts True": (lambda t: t.add(1, max_attempts=True), "max_attempts"),
    "max_attempts 1.5": (lambda t: t.add(1, max_attempts=1.5), "max_attempts"),
    "max_attempts 10**6": (lambda t: t.add(1, max_attempts=10**6), "max_attempts"),
    "headers not a map": (lambda t: t.add(1, headers=[("a", "b")]), "headers"),
    "a header of a number": (
        lambda t: t.add(1, headers={"x": 5000}),
        r"headers: 'x' is 5000; name and value are text: \{'x': '5000'\}",
    ),
    "a number as a header's name": (
        lambda t: t.add(1, headers={7: "a"}),
        r"headers: 7 is 'a'; name and value are text: \{'7': 'a'\}",
    ),
    "headers too large": (lambda t: t.add(1, headers={"a": "x" * 9000}), "headers: .*at most 8192"),
    "headers of surrogates": (lambda t: t.add(1, headers={"a": "\ud800"}), "headers"),
    "n 0": (lambda t: t.pop_many(0), "from 1 to 1000"),
    "n 1001": (lambda t: t.pop_many(1001), "from 1 to 1000"),
    "n True": (lambda t: t.pop_many(True), "from 1 to 1000"),
    "n text": (lambda t: t.pop_many("5"), "from 1 to 1000"),
    "delay None": (lambda t: t.add(1, delay=None), "delay: it is None"),
    "not a number": (lambda t: t.add({"a": [float("nan")]}), "body: .*not finite"),
    "not a number in a dataclass": (lambda t: t.add(Weighed(float("nan"))), "body: .*not finite"),
    "text for bodies": (lambda t: t.add_many("abc"), "bodies: str given"),
    "a map for bodies": (lambda t: t.add_many({"a": 1}), "bodies: dict given"),
    "text for ids": (lambda t: t.delete_many("order-7"), "ids: str given"),
    "text for a job": (lambda t: t.finish("abc"), "receipt: None"),
    "wait": (lambda t: t.pop(wait=-1), "wait: .*negative"),
    "wait nan": (lambda t: t.pop(wait=math.nan), "wait: .*not finite"),
    "wait True": (lambda t: t.pop(wait=True), "wait: .*not a duration"),
    "state of list": (lambda t: t.list("buried"), "delayed, reserved|ready, delayed"),
    "state of purge": (lambda t: t.purge("all"), "state"),
    "limit 0": (lambda t: t.list(limit=0), "limit"),
    "limit 1001": (lambda t: t.list(limit=1001), "limit"),
    "cursor": (lambda t: t.list(cursor="nonsense"), "cursor"),
    "cursor of another state": (lambda t: t.list("dead", cursor="WzMsIG51bGwsICIiXQ=="), "cursor"),
    "window of the dead": (lambda t: t.list("dead", due_after=AWARE), "not due"),
    "naive window": (lambda t: t.list(due_after=NAIVE), "time zone"),
    "buckets 0": (lambda t: t.histogram(buckets=0), "buckets"),
    "span 0": (lambda t: t.histogram(span=0), "span"),
    "throughput of a month": (lambda t: t.throughput(span="30d"), "span"),
    "pause 0": (lambda t: t.pause(0), "duration"),
    "keep_dead 0": (lambda t: t.configure(keep_dead=0), "keep_dead: "),
    "topic ttr": (lambda t: t.configure(ttr=0), "ttr"),
    **{
        f"topic {name} -1": (lambda t, name=name: t.configure(**{name: -1}), name)
        for name in (
            "ttr",
            "max_attempts",
            "keep_dead",
            "rate",
            "burst",
            "concurrency",
            "max_lateness",
            "keep_finished",
        )
    },
    "topic concurrency 0": (lambda t: t.configure(concurrency=0), "To hand out nothing, pause the topic"),
    "topic limit": (lambda t: t.configure(max_attempts=0), "max_attempts"),
    "reschedule to nothing": (lambda t: t.reschedule("7"), "delay= or at="),
    "reschedule to both": (lambda t: t.reschedule("7", delay=5, at=AWARE), "one of the two"),
    "receipt of text": (lambda t: t.finish(Reservation("7", "5")), "receipt"),  # type: ignore[arg-type]
    "receipt 0": (lambda t: t.finish(Reservation("7", 0)), "receipt"),
    "touch without its ttr": (lambda t: t.touch(Reservation("7", 5)), "give ttr="),
}


@pytest.fixture
def nothing_written(adapter: Adapter, topic: Any, written: Snapshot) -> Any:
    """A topic with one job and one known name: after the test it is byte for byte what it was."""
    adapter.perform(topic.add("there", id="7", delay=60))
    before = written()
    yield
    assert written() == before


@pytest.mark.parametrize(("name", "why"), NAMES.values(), ids=NAMES)
async def test_an_invalid_id_is_refused(
    adapter: Adapter, topic: Any, nothing_written: None, name: Any, why: str
) -> None:
    for ask in (
        lambda: topic.add(1, id=name),
        lambda: topic.add_many([0, NewJob(1, id=name)]),
        lambda: topic.get(name),
        lambda: topic.delete(name),
        lambda: topic.kick_many(["7", name]),
        lambda: topic.reschedule(name, delay=5),
        lambda: topic.finish(Reservation(name, 5)),
    ):
        with pytest.raises(BadInput, match=why) as told:
            await ask()
        assert "id" in str(told.value)
        assert isinstance(told.value, ValueError)
        assert isinstance(told.value, TarryError)


async def test_an_int_as_id_is_refused_with_a_hint(adapter: Adapter, topic: Any, nothing_written: None) -> None:
    with pytest.raises(BadInput, match=r"7 is a number, not text; write str\(id\)"):
        await topic.add(1, id=7)
    with pytest.raises(BadInput, match=r"str\(id\)"):
        await topic.delete(7)


@pytest.mark.parametrize(("name", "why"), NAMES.values(), ids=NAMES)
async def test_an_invalid_topic_name_is_refused(
    adapter: Adapter, topic: Any, nothing_written: None, name: Any, why: str
) -> None:
    with pytest.raises(BadInput, match=f"topic: .*{why}"):
        adapter.client.topic(name)
    with pytest.raises(BadInput):
        type(adapter.client)("redis://nowhere", namespace=name)


async def test_a_namespace_with_a_slash_is_refused(adapter: Adapter) -> None:
    with pytest.raises(BadInput, match=r"namespace: .*'/'"):
        type(adapter.client)("redis://nowhere", namespace="a/b")


@pytest.mark.parametrize(("delay", "why"), DELAYS.values(), ids=DELAYS)
async def test_an_invalid_delay_is_refused(
    adapter: Adapter, topic: Any, nothing_written: None, delay: Any, why: str
) -> None:
    for ask in (
        lambda: topic.add(1, delay=delay),
        lambda: topic.add_many([1, 2], delay=delay),
        lambda: topic.add_many([1, NewJob(2, delay=delay)]),
        lambda: topic.reschedule("7", delay=delay),
        lambda: topic.release(Reservation("7", 5), delay=delay),
    ):
        with pytest.raises(BadInput, match=f"delay: .*{why}"):
            await ask()


async def test_a_meaningless_call_is_refused(adapter: Adapter, topic: Any, nothing_written: None) -> None:
    wrong = list[tuple[str, object]]()
    for name, (ask, why) in CALLS.items():
        try:
            wrong.append((name, await ask(topic)))
        except BadInput as refused:
            if re.search(why, str(refused)) is None:
                wrong.append((name, refused))
    assert not wrong


async def test_an_unknown_keyword_is_a_type_error(adapter: Adapter, topic: Any, nothing_written: None) -> None:
    for ask in (
        lambda: topic.add(1, dealy=5),
        lambda: topic.add_many([1], id="7"),
        lambda: topic.pop(timeout=5),
        lambda: topic.release(Reservation("7", 5), dealy=5),
        lambda: topic.list(size=5),
    ):
        with pytest.raises(TypeError):
            await ask()


async def test_names_and_ids_of_maximum_length_work(adapter: Adapter, clock: Clock) -> None:
    topic = adapter.topic("测" * 66 + "ab")
    assert (await topic.add(1, id="x" * 200)).is_new
    assert (await topic.pop()).id == "x" * 200
    await topic.add(1, id="a b/c:d'\"\\%*?[]€")
    assert (await topic.pop()).id == "a b/c:d'\"\\%*?[]€"


async def test_bad_input_creates_no_topic(adapter: Adapter, written: Snapshot) -> None:
    topic = adapter.topic("never added to")
    with pytest.raises(BadInput):
        await topic.add(1, delay=-1)
    with pytest.raises(BadInput):
        await topic.add_many([1, object()])
    assert written() == {}
