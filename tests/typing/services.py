"""What type checkers must know about clients of a service: the same handles. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

import msgspec

import tarry


class Order(msgspec.Struct):
    number: int


def blocking() -> None:
    with tarry.HTTPClient("http://localhost:7070", namespace="shop", token="tarry_…") as client:  # noqa: S106  # none
        orders = client.topic("orders", type=Order, partitions=8)
        assert_type(orders, tarry.Topic[Order])
        job = orders.pop(wait="30s")
        if job is not None:
            assert_type(job.body, Order)
        assert_type(client.topic("any"), tarry.Topic[Any])
        queue = client.delayed_queue("letters", codec="string")
        assert_type(queue, tarry.redisson.DelayedQueue[Any])
        assert_type(queue.offer("dear all", "1h"), datetime)
        assert_type(client.blocking_queue("letters").poll_many(5, wait=1), list[Any])
        assert_type(client.guarded_queue("reminders"), tarry.types.GuardedQueue[Any])
        assert_type(client.schedules.get("letters", "newsletter"), tarry.Schedule | None)
        assert_type(client.lock("stock").force_release(), bool)
        assert_type(client.map_cache("prices").stats().size, int)
        assert_type(client.migrate("orders", orders).moved, int)
        assert_type(client.migrate_queue(queue, "letters").moved, int)


async def awaited() -> None:
    async with tarry.AsyncHTTPClient() as client:
        orders = client.topic("orders", type=Order)
        assert_type(orders, tarry.AsyncTopic[Order])
        assert_type(await client.delayed_queue("letters").size(), int)
        assert_type(await client.guarded_queue("reminders").poll(), tarry.types.GuardedItem[Any] | None)
        assert_type((await client.lock("stock").state()).held, bool)
        assert_type((await client.migrate("orders", orders)).refused, int)
