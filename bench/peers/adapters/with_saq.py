"""saq: a worker on uvloop with 100 jobs at once; it schedules every second, in whole seconds; results are not kept."""

from __future__ import annotations

import math
from typing import Any

import saq
import side
import uvloop

SLOTS = 100
TRIES = 3


class Saq(side.Adder):
    def __init__(self, queue: saq.Queue) -> None:
        self._queue = queue

    async def add(self, body: str, due: float) -> None:
        await self._queue.enqueue("run", body=body, scheduled=math.ceil(due), retries=TRIES, ttl=-1)


async def produce(url: str) -> Saq:
    queue = saq.Queue.from_url(url, name="orders")
    await queue.connect()
    return Saq(queue)


async def run(_ctx: Any, *, body: str) -> None:
    await side.ran_async(body)


def work(url: str, slots: int) -> None:
    uvloop.run(start(url, slots))


async def start(url: str, slots: int) -> None:
    queue = saq.Queue.from_url(url, name="orders")
    await queue.connect()
    await saq.Worker(queue, functions=[run], concurrency=slots or SLOTS).start()


if __name__ == "__main__":
    side.main(produce, work)
