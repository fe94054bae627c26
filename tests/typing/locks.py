"""Locks, as type checkers see them. Read by mypy and basedpyright, never run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import tarry
from tarry import zookeeper


def blocking(client: tarry.Client) -> None:
    lock = client.lock("stock", wait="5s", lease=timedelta(seconds=10))
    assert_type(lock, tarry.Lock)
    assert_type(lock.acquire(), tarry.Grant | None)
    assert_type(lock.acquire(wait=None, lease=None), tarry.Grant | None)
    assert_type(lock.state(), tarry.LockState)
    assert_type(lock.force_release(), bool)
    assert_type(client.lock("stock", shared=True), tarry.Lock)
    with lock as grant:
        assert_type(grant, tarry.Grant)
        assert_type(grant.token, int)
        assert_type(grant.remaining, timedelta)
        assert_type(grant.lost.wait("1s"), bool)
        grant.on_lost(lambda: print("lost"))
        with grant.guard() as guarded:
            assert_type(guarded, tarry.Grant)
    lock.acquire(wait=[])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def awaiting(client: tarry.AsyncClient) -> None:
    lock = client.lock("stock")
    assert_type(lock, tarry.AsyncLock)
    assert_type(await lock.acquire(wait=0), tarry.AsyncGrant | None)
    assert_type(await lock.state(), tarry.LockState)
    async with lock as grant:
        assert_type(grant, tarry.AsyncGrant)
        assert_type(await grant.lost.wait(), bool)
        async with grant.guard() as guarded:
            assert_type(guarded, tarry.AsyncGrant)


def on_zookeeper() -> None:
    with zookeeper.Client("127.0.0.1:2181", namespace="shop", session_timeout="8s") as client:
        lock = client.lock("stock", wait=5)
        assert_type(lock, tarry.Lock)
        assert_type(client.lock("/locks/stock", shared=True), tarry.Lock)
        assert_type(client.locks(), list[str])


async def on_zookeeper_awaited(client: zookeeper.AsyncClient) -> None:
    assert_type(client.lock("stock"), tarry.AsyncLock)
    assert_type(await client.locks(), list[str])


def guarded(client: tarry.Client, locks: zookeeper.Client) -> None:
    queue = client.guarded_queue("orders", guard=locks.lock("orders"), max_lateness="5s", on_late=print)
    assert_type(queue.push({"tea": "10m"}), list[datetime])
    queue.push([("tea", 10), ("tea", timedelta(minutes=1))])
    assert_type(queue.poll(wait="1s"), tarry.types.GuardedItem[Any] | None)
    for item in queue.poll_many(10, wait=None):
        assert_type(item.due, datetime)
        assert_type(item.lateness, timedelta)
    assert_type(queue.stats(), tarry.types.GuardedStats)


async def guarded_awaited(client: tarry.AsyncClient) -> None:
    queue = client.guarded_queue("orders", guard=client.lock("orders"))
    assert_type(await queue.push({"tea": "10m"}), list[datetime])
    client.guarded_queue("orders", guard=tarry.Client().lock("x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
