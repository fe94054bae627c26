"""Bodies: JSON, bytes, types of the user; an error of decoding is raised when the body is read."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypedDict

import msgspec
import pytest

from story.adapters import Adapter
from tarry import BadInput, BodyError
from tarry.clients.testing import Clock


class Order(msgspec.Struct):
    id: int
    paid: bool = False
    at: datetime | None = None


@dataclass
class Address:
    street: str
    tags: list[str]


class Point(TypedDict):
    x: int
    y: int


class Pickled:
    def encode(self, body: Any) -> bytes:
        return pickle.dumps(body)

    def decode(self, raw: bytes) -> Any:
        return pickle.loads(raw)


async def there_and_back(topic: Any, body: Any) -> Any:
    await topic.add(body, id="7")
    assert (await topic.get("7")).body == body
    async_job = await topic.pop()
    await topic.finish(async_job)
    return async_job.body


async def test_json_and_bytes_round_trip(adapter: Adapter, topic: Any) -> None:
    for body in (
        None,
        True,
        0,
        -1,
        2**63,
        1.5,
        "",
        "tea 测试 \x00\n",
        [],
        {},
        {"a": [1, {"b": None}]},
        b"",
        b"\x00\xff\xfe",
    ):
        back = await there_and_back(topic, body)
        assert back == body
        assert type(back) is type(body), body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Order, Order(7, at=datetime(2027, 1, 1, tzinfo=timezone.utc))),
        (Address, Address("測", ["a"])),
        (Point, {"x": 1, "y": 2}),
        (list[int], [1, 2, 3]),
        (int | str, "seven"),
        (bytes, b"\x00\x01"),
        (str, "tea"),
        (float, 1.5),
        (Pickled(), {1, 2, 3}),
    ],
    ids=["Struct", "dataclass", "TypedDict", "list[int]", "int|str", "bytes", "str", "float", "codec"],
)
async def test_a_typed_topic_round_trips_its_type(adapter: Adapter, kind: Any, body: Any) -> None:
    back = await there_and_back(adapter.topic("typed", type=kind), body)
    assert back == body
    assert type(back) is type(body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(Order, {"id": 7}), (bytes, "text"), (str, 7), (None, object()), (Address, Order(7))],
    ids=["Struct", "bytes", "str", "object", "other"],
)
async def test_a_body_that_is_not_of_the_type_is_refused(adapter: Adapter, kind: Any, body: Any) -> None:
    topic = adapter.topic("typed", type=kind)
    with pytest.raises(BadInput, match="body"):
        await topic.add(body)
    with pytest.raises(BadInput, match="job 1: body"):
        await topic.add_many([*good(kind), body])
    assert (await topic.stats()).ready == 0


def good(kind: Any) -> list[Any]:
    """One good body of the type."""
    return [{Order: Order(1), bytes: b"1", str: "1", None: 1, Address: Address("", [])}[kind]]


@pytest.mark.parametrize("raw", [b"{", b'{"id":"seven"}', b"\xff", b"[]"])
async def test_a_pop_never_fails_because_of_a_body(adapter: Adapter, raw: bytes) -> None:
    await adapter.topic("typed").add(raw, id="7")
    await adapter.topic("typed").add({"id": 8}, id="8")
    topic = adapter.topic("typed", type=Order)
    bad, good = await topic.pop_many(2)
    with pytest.raises(BodyError, match=r"job\.raw"):
        _ = bad.body
    assert (bad.raw, good.body) == (raw, Order(8))
    await topic.bury(bad, reason="does not decode")
    with pytest.raises(BodyError):
        _ = (await topic.get("7")).body
    assert (await topic.get("7")).raw == raw


async def test_a_failing_custom_codec_raises_body_error(adapter: Adapter) -> None:
    await adapter.topic("own").add("no pickle")
    job = await adapter.topic("own", type=Pickled()).pop()
    with pytest.raises(BodyError):
        _ = job.body


async def test_a_body_may_have_one_mebibyte_at_most(adapter: Adapter, topic: Any) -> None:
    assert len(await there_and_back(topic, b"x" * (1 << 20))) == 1 << 20
    with pytest.raises(BadInput, match="1048577 bytes; the limit is 1048576"):
        await topic.add(b"x" * ((1 << 20) + 1))
    with pytest.raises(BadInput, match="limit"):
        await topic.add("x" * (1 << 20))


async def test_the_body_limit_is_configurable(valkey_url: str, adapter: Adapter, clock: Clock, namespace: str) -> None:
    from story import adapters

    small = adapters.imaginary("sync", valkey_url, clock, namespace, max_body=10)
    topic = small.topic("small")
    await topic.add(b"x" * 10)
    with pytest.raises(BadInput, match="limit is 10"):
        await topic.add(b"x" * 11)
    small.close()
