"""A closed client stays closed; a blocking client says when it holds up an event loop; a body is what JSON can give back."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

import tarry
from service.running_service import RunningService

CLOSED = "client: it is closed"
Make = Callable[[], tarry.Client]


@pytest.fixture(params=["redis", "http"])
def make(request: pytest.FixtureRequest, valkey_url: str, running_service: RunningService) -> Make:
    namespace = f"closed-{os.getpid()}"
    if request.param == "http":
        return lambda: tarry.HTTPClient(running_service.url)  # type: ignore[return-value]  # the same verbs
    return lambda: tarry.Client(valkey_url, namespace=namespace)


def test_a_verb_after_close_is_refused(make: Make) -> None:
    client = make()
    orders = client.topic("closed")
    orders.add(1, delay="1h")
    client.close()
    for verb in (
        lambda: orders.add(1),
        lambda: orders.add_many([1, 2]),
        lambda: orders.pop(wait=5),
        orders.stats,
        orders.list,
        client.topics,
        client.topic("other").purge,
        client.schedules.list,
    ):
        with pytest.raises(tarry.BadInput, match=CLOSED):
            verb()
    client.close()  # again is no error


def test_an_unused_client_can_be_closed(make: Make) -> None:
    client = make()
    client.close()
    with pytest.raises(tarry.BadInput, match=CLOSED):
        client.topics()


@pytest.mark.parametrize("kind", ["redis", "http"])
def test_an_async_verb_after_close_is_refused(kind: str, valkey_url: str, running_service: RunningService) -> None:
    async def main() -> None:
        client = tarry.AsyncHTTPClient(running_service.url) if kind == "http" else tarry.AsyncClient(valkey_url)
        orders = client.topic("closed")
        await orders.add(1, delay="1h")
        await client.close()
        for verb in (lambda: orders.add(1), lambda: orders.pop(wait=5), orders.stats, client.topics):
            with pytest.raises(tarry.BadInput, match=CLOSED):
                await verb()
        await client.close()

    asyncio.run(main())


def test_a_closed_client_stays_closed_in_another_loop(valkey_url: str) -> None:
    client = tarry.AsyncClient(valkey_url)

    async def close() -> None:
        await client.topics()
        await client.close()

    asyncio.run(close())
    with pytest.raises(tarry.BadInput, match=CLOSED):
        asyncio.run(client.topics())


def test_a_blocking_client_in_an_event_loop_warns_once(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    async def main(client: tarry.Client) -> None:
        client.topic("loop").stats()
        client.topic("loop").stats()
        await asyncio.to_thread(client.topic("loop").stats)

    with caplog.at_level(logging.WARNING, "tarry"), make() as client:
        client.topic("loop").stats()
        assert not warnings(caplog)
        asyncio.run(main(client))
    [warning] = warnings(caplog)
    assert f"at {__file__}:" in warning
    assert "Use tarry.AsyncClient there, or asyncio.to_thread." in warning


def test_a_blocking_client_in_a_thread_of_a_loop_does_not_warn(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tarry"), make() as client:
        asyncio.run(asyncio.to_thread(client.topic("loop").stats))
    assert not warnings(caplog)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if "event loop" in line.getMessage()]


@pytest.mark.parametrize("body", [{1, 2}, frozenset({1}), set()])
def test_a_set_is_refused(make: Make, body: object) -> None:
    with make() as client, pytest.raises(tarry.BadInput, match="JSON has no set"):
        client.topic("sets").add(body)


@pytest.mark.parametrize("body", [{"tags": {1, 2}}, {"n": 1, "tags": frozenset()}, [1, {2}], ({1},)])
def test_a_set_directly_in_a_body_is_refused(make: Make, body: object) -> None:
    """By the blocking clients, in Python and over HTTP; nothing is added."""
    with make() as client:
        topic = client.topic("nested")
        with pytest.raises(tarry.BadInput, match="JSON has no set"):
            topic.add(body)
        with pytest.raises(tarry.BadInput, match="JSON has no set"):
            topic.add_many([{"n": 1}, body])
        assert len(topic.list()) == 0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Decimal("1.50"), "JSON has no Decimal, 1.50 would come back as text; give text or a float"),
        (datetime(2026, 1, 2), "the datetime 2026-01-02 00:00:00 has no time zone"),  # noqa: DTZ001  # as a user may
        ({7: "a"}, "JSON has only text as keys, 7 would come back as '7'; give text"),
    ],
)
def test_a_value_that_would_come_back_as_another_is_refused(make: Make, value: Any, words: str) -> None:
    with make() as client:
        topic = client.topic("inexact")
        for body in (value, {"n": 1, "at": value}, [1, value]):
            with pytest.raises(tarry.BadInput, match=f"^body: {words}.*, or a type= to the topic"):
                topic.add(body)
            with pytest.raises(tarry.BadInput, match=words):
                topic.add_many([{"n": 1}, body])
        assert len(topic.list()) == 0


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (dict[str, Decimal], {"price": Decimal("1.50")}),
        (dict[str, datetime], {"at": datetime(2026, 1, 2)}),  # noqa: DTZ001  # as a user may
        (dict[int, str], {7: "a"}),
    ],
)
def test_a_typed_body_comes_back_as_it_was(make: Make, kind: Any, body: Any) -> None:
    with make() as client:
        topic = client.topic("exact", type=kind)
        found = topic.get(topic.add(body, delay="1h").id)
        assert found is not None
        assert found.body == body


def test_deeper_inside_a_value_comes_back_as_documented(make: Make) -> None:
    with make() as client:
        topic = client.topic("deep")
        found = topic.get(topic.add({"a": [{"7": Decimal("1.50")}, {"b": {3}}]}, delay="1h").id)
        assert found is not None
        assert found.body == {"a": [{"7": "1.50"}, {"b": [3]}]}


@dataclass
class Sums:
    by_number: dict[int, int]


class Names(StrEnum):
    ORDER = "order"


@pytest.mark.parametrize(
    "body", [{"a": [{"b": {7: 1}}]}, [[[{7: 1}]]], {"a": {"b": {7.5: 1}}}, {"a": [Sums({7: 1})]}, Sums({7: 1})]
)
def test_keys_that_are_not_text_are_refused_at_any_depth(make: Make, body: Any) -> None:
    with make() as client:
        with pytest.raises(tarry.BadInput, match="JSON has only text as keys, 7"):
            client.topic("keys").add(body)
        client.topic("keys").add({"a": [{Names.ORDER: 1}]})


def test_a_body_that_is_nested_too_deeply_is_refused(make: Make) -> None:
    """By the encoder, or by what looks at the values after it: Pythons differ in which gives up first, and some take the first ones."""
    refused = set[int]()
    with make() as client:
        for levels in (800, 850, 900, 1_000, 1_500, 20_000):
            body: Any = {"a": None}
            for _ in range(levels):
                body = {"a": body}
            try:
                client.topic("depth").add(body)
            except tarry.BadInput as fault:
                assert "nested too deeply" in str(fault)  # noqa: PT017  # it need not be refused
                refused.add(levels)
    assert refused >= {1_000, 1_500, 20_000}


def test_what_says_the_same_as_text_is_accepted(make: Make) -> None:
    moment, number = datetime(2026, 1, 2, tzinfo=UTC), UUID(int=7)
    with make() as client:
        topic = client.topic("said")
        found = topic.get(
            topic.add({"at": moment, "day": moment.date(), "number": number, "pair": (1, 2)}, delay="1h").id
        )
        assert found is not None
        assert found.body == {"at": "2026-01-02T00:00:00Z", "day": "2026-01-02", "number": str(number), "pair": [1, 2]}


def test_a_typed_body_may_contain_sets(make: Make) -> None:
    with make() as client:
        topic = client.topic("typed", type=dict[str, set[int]])
        added = topic.add({"tags": {1, 2}}, delay="1h")
        found = topic.get(added.id)
        assert found is not None
        assert found.body == {"tags": {1, 2}}
        topic.delete(added.id)


def test_a_topic_typed_as_sets_accepts_sets(make: Make) -> None:
    with make() as client:
        topic = client.topic("sets", type=set[int])
        added = topic.add({1, 2}, delay="1h")
        found = topic.get(added.id)
        assert found is not None
        assert found.body == {1, 2}
        topic.delete(added.id)
