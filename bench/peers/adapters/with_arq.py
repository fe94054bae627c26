"""arq: a worker as by default (it polls every 0.5 s), with 100 jobs at once; results are not kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import arq
import arq.connections
import side
from arq.worker import Worker

SLOTS = 100


class Arq(side.Adder):
    def __init__(self, pool: arq.ArqRedis) -> None:
        self._pool = pool

    async def add(self, body: str, due: float) -> None:
        await self._pool.enqueue_job("run", body, _defer_until=datetime.fromtimestamp(due, UTC))


async def produce(url: str) -> Arq:
    return Arq(await arq.create_pool(arq.connections.RedisSettings.from_dsn(url)))


async def run(_ctx: dict[Any, Any], body: str) -> None:
    await side.ran_async(body)


def work(url: str, slots: int) -> None:
    settings = arq.connections.RedisSettings.from_dsn(url)
    Worker([run], redis_settings=settings, max_jobs=slots or SLOTS, keep_result=0).run()


if __name__ == "__main__":
    side.main(produce, work)
