"""The stats of a queue, other names in Java, and queues that move without a consumer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.programs.service.shared_metrics import GAUGES
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import pack
from until import LONGEST_S


async def test_stats_count_waiting_ready_and_overdue_elements(
    queues: Any, delayed: Any, blocking: Any, clock: Clock, server: Any, name: str
) -> None:
    empty = await delayed.stats()
    assert (empty.waiting, empty.ready, empty.next_due, empty.oldest_overdue) == (0, 0, None, timedelta())
    due = await delayed.offer("a", 10)
    await delayed.offer("b", 20)
    await blocking.put("c")
    server.hset(keys_of(name).poison, "x", "0 why")
    clock.advance(12)
    now = await blocking.stats()
    assert now == await delayed.stats()
    assert (now.queue, now.waiting, now.overdue, now.ready, now.poison, now.leaving) == (name, 2, 1, 1, 1, 0)
    assert (now.next_due, now.oldest_overdue, now.movers) == (due, timedelta(seconds=2), 0)
    values = {gauge: value(now) for gauge, (_, value) in GAUGES.items()}
    assert values["tarry_delayed_queue_oldest_overdue_seconds"] == 2.0
    assert values["tarry_delayed_queue_waiting"] == 2


def test_a_prefix_or_a_function_maps_names_as_in_java(valkey_url: str, clock: Clock, name: str, server: Any) -> None:
    for mapper in (f"{name}:", lambda given: f"{name}:{given}"):
        with TestClient(valkey_url, clock, name_mapper=mapper) as client:
            client.delayed_queue("orders", codec="string").offer("tea", 1)
            assert server.llen(f"redisson_delay_queue:{{{name}:orders}}") == 1
            assert client.delayed_queue("orders", codec="string").poll_last_and_offer_first_to("others") == "tea"
            assert server.lpop(f"{name}:others") == b"tea"


@pytest.mark.parametrize("mapper", [7, lambda name: "", lambda name: None])
def test_a_name_mapper_without_a_valid_result_is_refused(valkey_url: str, mapper: Any) -> None:
    with pytest.raises(tarry.BadInput, match="name_mapper"):
        tarry.Client(valkey_url, name_mapper=mapper).delayed_queue("orders")


def test_keep_moving_delivers_due_elements(valkey_url: str, server: Any, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    with tarry.Client(valkey_url) as client:
        client.keep_moving(*names)
        for each in names:  # as Java does whose client is gone by now
            element = pack(b"tea", b"12345678")
            server.zadd(keys_of(each).timeouts, {element: 1})
            server.rpush(keys_of(each).order, element)
        assert [server.blpop(each, LONGEST_S) for each in names] == [(each.encode(), b"tea") for each in names]
