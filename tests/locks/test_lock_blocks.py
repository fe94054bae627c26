"""Blocks that need a lock: what they raise when it is lost, and the state after they were cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.errors import LockLost, NotAcquired


@pytest.fixture(params=["redis", "zookeeper"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes clients of either kind of lock."""

    def client(*, awaited: bool) -> Any:
        if request.param == "redis":
            return (tarry.AsyncClient if awaited else tarry.Client)(request.getfixturevalue("valkey_url"))
        from tarry import zookeeper

        hosts = request.getfixturevalue("zookeeper").hosts
        return (zookeeper.AsyncClient if awaited else zookeeper.Client)(hosts, namespace="tests", session_timeout=4)

    return client


def enter(lock: Any, meanwhile: Callable[[Any], object]) -> None:
    with lock as grant:
        meanwhile(grant)


def enter_guarded(lock: Any, meanwhile: Callable[[Any], object]) -> None:
    with lock as grant, grant.guard():
        meanwhile(grant)


@pytest.mark.parametrize("block", [enter, enter_guarded])
def test_a_block_that_outlives_its_lock_raises_lock_lost(make: Callable[..., Any], name: str, block: Any) -> None:
    with make(awaited=False) as client:
        with pytest.raises(LockLost, match="its lease ended"):
            block(client.lock(name, lease=0.05), lambda grant: grant.lost.wait(5))
        with client.lock(name, wait=5) as grant:
            grant.check()


@pytest.mark.parametrize("block", [enter, enter_guarded])
def test_the_exception_of_the_block_is_not_replaced(make: Callable[..., Any], name: str, block: Any) -> None:
    with make(awaited=False) as client, make(awaited=False) as operator:

        def lose_it(grant: Any) -> None:
            operator.lock(name).force_release()
            with pytest.raises(LockLost):
                grant.check()
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            block(client.lock(name), lose_it)
        with client.lock(name, wait=5):
            pass


async def sleep_guarded(lock: Any, meanwhile: Any = None) -> None:
    async with lock as grant, grant.guard():
        if meanwhile is not None:
            await meanwhile(grant)
        await asyncio.sleep(30)


def test_a_guarded_block_is_cancelled_when_its_lock_is_lost(make: Callable[..., Any], name: str) -> None:
    async def story() -> None:
        async with make(awaited=True) as client, make(awaited=True) as operator:

            async def take_away(grant: Any) -> None:
                await operator.lock(name).force_release()
                with pytest.raises(LockLost):
                    await grant.check()

            began = time.monotonic()
            with pytest.raises(LockLost, match=f"The lock {name} is no longer held"):
                await sleep_guarded(client.lock(name), take_away)
            assert time.monotonic() - began < 25
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            async with client.lock(name) as again, again.guard():
                await asyncio.sleep(0)

    asyncio.run(story())


def test_a_guarded_block_cancelled_from_outside_stays_cancelled(make: Callable[..., Any], name: str) -> None:
    async def story() -> None:
        async with make(awaited=True) as client:
            begun = asyncio.Event()

            async def tell(_: Any) -> None:
                begun.set()

            task = asyncio.ensure_future(sleep_guarded(client.lock(name), tell))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with asyncio.timeout(5):
                assert await client.lock(name).acquire() is not None

    asyncio.run(story())


def test_a_cancelled_acquire_leaves_nothing_behind(make: Callable[..., Any], name: str) -> None:
    async def story() -> None:
        async with make(awaited=True) as client, make(awaited=True) as other:
            await client.lock(name).state()
            for turn in range(40):
                task = asyncio.ensure_future(client.lock(name).acquire())
                for _ in range(turn % 10):
                    await asyncio.sleep(0)
                if turn >= 30:
                    await asyncio.sleep(0.0005 * (turn - 29))
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    grant = task.result()
                    await grant.release()  # its task has ended: whoever has the grant gives it back
                async with asyncio.timeout(10):
                    async with other.lock(name):
                        pass

    asyncio.run(story())


def test_a_cancelled_waiter_is_skipped(make: Callable[..., Any], name: str) -> None:
    async def story() -> None:
        async with make(awaited=True) as client, make(awaited=True) as other:
            grant = await client.lock(name).acquire()
            waiting = [asyncio.ensure_future((client, other)[i % 2].lock(name).acquire()) for i in range(6)]
            await asyncio.sleep(0.1)
            for task in waiting[:4]:
                task.cancel()
            await asyncio.wait(waiting[:4])
            await grant.release()
            for _ in range(2):
                done, _ = await asyncio.wait(
                    [task for task in waiting[4:] if not task.done() or not task.result()._released],
                    timeout=9,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                (had,) = done
                await had.result().release()
            with pytest.raises(NotAcquired):
                await client.lock(name).release()

    asyncio.run(story())


@pytest.mark.otherserver
@pytest.mark.parametrize("server", ["redis6_url", "redis7_url", "redis8_url"])
def test_locks_work_on_other_servers(request: pytest.FixtureRequest, server: str, name: str) -> None:
    url = request.getfixturevalue(server)
    with tarry.Client(url) as one, tarry.Client(url) as other:
        with one.lock(name) as grant, one.lock(name):
            assert other.lock(name).acquire(wait=0) is None
            assert other.lock(name).state().depth == 2
        with other.lock(name, wait=5) as later:
            assert later.token > grant.token
            later.check()
