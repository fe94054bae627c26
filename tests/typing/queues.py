# pyright: strict, reportUnknownMemberType=true, reportUnknownVariableType=true, reportUnknownArgumentType=true
"""What type checkers must know about queues that are shared with Java. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import tarry


def upper(name: str) -> str:
    return name.upper()


def blocking() -> None:
    with tarry.Client(name_mapper=upper, redisson="3.16.8") as client:
        delayed = client.delayed_queue("orders", codec="string", format="dLc0")
        assert_type(delayed, tarry.redisson.DelayedQueue[Any])
        assert_type(delayed.offer("tea", "10m"), datetime)
        assert_type(delayed.offer_many(["tea"], timedelta(1)), list[datetime])
        assert_type(delayed.poll_many(3), list[Any])
        delayed.poll(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert_type(delayed.remove("tea"), bool)
        assert_type(delayed.stats(), tarry.redisson.QueueStats)
        assert_type(delayed.stats().oldest_overdue, timedelta)
        assert_type(delayed.poison(), list[tarry.redisson.PoisonElement])

        ready = client.blocking_queue("orders", redisson="3.16.8")
        assert_type(ready, tarry.redisson.BlockingQueue[Any])
        assert_type(ready.poll_many(3, wait="1s"), list[Any])
        ready.poll(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        assert_type(ready.drain_to([]), int)
        assert_type(ready.subscribe(print), tarry.redisson.Subscription)
        assert_type(client.migrate_queue(delayed, "orders", progress=print), tarry.Migrated)
        client.keep_moving("orders", "letters")


async def handle(value: str) -> None: ...


async def awaiting() -> None:
    async with tarry.AsyncClient(name_mapper="shop:") as client:
        delayed = client.delayed_queue("orders")
        assert_type(await delayed.offer("tea", 5), datetime)
        assert_type(await delayed.stats(), tarry.redisson.QueueStats)
        ready = client.blocking_queue("orders")
        assert_type(await ready.drain_to([], 5), int)
        assert_type(ready.subscribe(handle), tarry.redisson.AsyncSubscription)
        await client.keep_moving("orders")


worker = tarry.Worker()
worker.keep_moving("letters")


@worker.on_queue("orders", codec="river", concurrency=3)
async def order(value: str) -> None: ...


@worker.on_queue("letters", redisson="3.16.8")
def letter(value: dict[str, str]) -> None: ...


assert_type(letter({}), None)
