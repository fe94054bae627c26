"""streaQ: a worker on uvloop with 100 jobs at once; it looks for due jobs every 0.5 s; results are not kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import side
from streaq import Worker

SLOTS = 100


def make_worker(url: str, slots: int) -> tuple[Worker[Any], Any]:
    worker: Worker[Any] = Worker(redis_url=url, concurrency=slots or SLOTS, anyio_kwargs={"use_uvloop": True})

    @worker.task(ttl=0)
    async def run(body: str) -> None:
        await side.ran_async(body)

    return worker, run


class Streaq(side.Adder):
    def __init__(self, url: str) -> None:
        self.worker, self._run = make_worker(url, 0)
        self.add_many = self._add_many

    async def add(self, body: str, due: float) -> None:
        await self._run.enqueue(body).start(schedule=datetime.fromtimestamp(due, UTC))

    async def _add_many(self, bodies: list[str], due: float) -> None:
        when = datetime.fromtimestamp(due, UTC)
        await self.worker.enqueue_many([self._run.enqueue(body).start(schedule=when) for body in bodies])


async def produce(url: str) -> Streaq:
    adder = Streaq(url)
    await adder.worker.__aenter__()
    return adder


def work(url: str, slots: int) -> None:
    make_worker(url, slots)[0].run_sync()


if __name__ == "__main__":
    side.main(produce, work)
