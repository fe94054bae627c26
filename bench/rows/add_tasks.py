"""64 asyncio tasks add one by one, each awaiting its answer before the next.

tarry       ``await topic.add(body, delay=3600)``: those of one turn of the loop leave in one script
yardstick   redis-py's asyncio client, ``await redis.evalsha(...)`` of HSET + ZADD, a connection a task
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

import tarry
from bench.harness import BARE_ADD, BODY, RAW_BODY, Bench
from bench.results import Result, Target, Turn, costs, rates

TASKS = 64


async def _together(add: Callable[[int], Awaitable[object]], each: int) -> None:
    async def one(task: int) -> None:
        for number in range(each):
            await add(task * each + number)

    await asyncio.gather(*(one(task) for task in range(TASKS)))


def add_tasks(bench: Bench) -> list[Result]:
    each = bench.size(100, 50, 2)

    async def by_tarry() -> Turn:
        async with tarry.AsyncClient(bench.url) as client:
            topic = client.topic("orders")
            await _together(lambda _: topic.add(BODY, delay=3600), 1)
            with bench.turn(TASKS * each) as taken:
                await _together(lambda _: topic.add(BODY, delay=3600), each)
            return taken()

    async def bare() -> Turn:
        async with Redis(unix_socket_path=bench.socket) as redis:
            sha = await redis.script_load(BARE_ADD)

            def add(number: int) -> Awaitable[object]:
                return redis.evalsha(sha, 2, "bare:jobs", "bare:due", f"job-{number}", str(number), RAW_BODY)

            await _together(add, 1)
            with bench.turn(TASKS * each) as taken:
                await _together(add, each)
            return taken()

    ours, theirs = bench.turns(lambda: asyncio.run(by_tarry()), lambda: asyncio.run(bare()), times=bench.size(6, 3, 1))
    return [
        Result(
            "add_tasks",
            "64 asyncio tasks adding one by one",
            "jobs/s",
            rates(ours),
            Target("≥", 3.5, "ratio"),
            rates(theirs),
            costs(ours, "tarry") | costs(theirs, "bare"),
        )
    ]
