"""The examples of docs/reference/testing.md, a cell for each name. The tests run that page."""

# %% testing.start_server
from contextlib import ExitStack
from pathlib import Path

import tarry
from tarry import testing

servers = ExitStack()
url = servers.enter_context(testing.start_server(Path("test-server")))  # `with testing.start_server(folder) as url:`

# %% testing.TestClock
worker = tarry.Worker("shop")
closed: list[int] = []


@worker.task
async def close(order: int) -> None:
    closed.append(order)


clock = testing.TestClock(url, "test-1")
clock.attach(worker)
close.options(delay="30m").add(7)
clock.advance("29m")
assert closed == []
clock.advance("1m")  # runs the job, and whatever becomes due
assert closed == [7]
print(clock.now)

# %% testing.TestClock.moments
close.options(delay="1h").add(8)
import asyncio

for busy in clock.moments("1h"):  # what `advance` does, step by step
    asyncio.run(busy.run_until_idle())
assert closed == [7, 8]

# %% testing.TestClock.close
clock.close()

# %% testing.TestClient
clock = testing.TestClock(url, "test-2")
kitchen = clock.client.topic("kitchen")  # a `tarry.Client` by this clock; the fixture `tarry_client`
kitchen.add("tea", delay="4m")
assert kitchen.pop() is None
assert kitchen.pop(wait="10m") is not None  # four minutes have passed
clock.close()


# %% testing.TestAsyncClient
async def awaited() -> None:
    async with testing.TestAsyncClient(url, namespace="test-3") as client:
        await client.topic("kitchen").add("tea", delay="4m")
        assert await client.topic("kitchen").pop(wait="10m") is not None


asyncio.run(awaited())

# %% testing.TestAsyncClock
timeline = testing.TestClock(url, "test-4")


async def with_a_worker() -> None:
    clock = testing.TestAsyncClock(timeline)
    clock.attach(worker)
    await close.options(delay="30m").add_async(9)
    await clock.advance("30m")
    assert closed == [7, 8, 9]


asyncio.run(with_a_worker())
timeline.close()
servers.close()

# %% fixtures
# test_shop.py
import asyncio

import tarry
from tarry import testing

shop = tarry.Worker("shop")
done: list[int] = []


@shop.task
async def finish(order: int) -> None:
    done.append(order)


def test_a_job_runs_when_it_is_due(tarry_clock: testing.TestClock, tarry_client: testing.TestClient) -> None:
    tarry_clock.attach(shop)
    finish.options(delay="30m").add(7)
    tarry_clock.advance("30m")
    assert done == [7]
    assert tarry_client.topic("shop").pop() is None


def test_a_client_of_your_own_has_real_time(tarry_url: str) -> None:
    with tarry.Client(tarry_url, namespace="own") as client:
        client.topic("kitchen").add("tea")


def test_tea(tarry_async_client: testing.TestAsyncClient, tarry_async_clock: testing.TestAsyncClock) -> None:
    async def make_tea() -> None:
        await tarry_async_client.topic("kitchen").add("tea", delay="4m")
        await tarry_async_clock.advance("4m")
        assert await tarry_async_client.topic("kitchen").pop() is not None

    asyncio.run(make_tea())


# %% fixtures sh
# python -m pytest -q test_shop.py
