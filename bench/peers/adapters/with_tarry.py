"""tarry: ``tarry.Worker`` as users run it, on uvloop as ``tarry worker`` does; the blocking client adds."""

from __future__ import annotations

from datetime import UTC, datetime

import side

import tarry
from tarry.worker.worker_process import run_in_loop

TOPIC = "orders"


class Tarry(side.Adder):
    def __init__(self, url: str) -> None:
        self._topic = tarry.Client(url).topic(TOPIC)
        self._in_task = tarry.AsyncClient(url).topic(TOPIC)

    def add(self, body: str, due: float) -> None:
        self._topic.add(body, at=moment(due))

    def add_many(self, bodies: list[str], due: float) -> None:
        self._topic.add_many(bodies, at=moment(due))

    async def add_in_task(self, body: str, due: float) -> None:
        await self._in_task.add(body, at=moment(due))


def moment(due: float) -> datetime:
    return datetime.fromtimestamp(due, UTC)


def work(url: str, slots: int) -> None:
    run_in_loop(run_worker(url, slots))


async def run_worker(url: str, slots: int) -> None:
    worker = tarry.Worker(url=url)

    @worker.on(TOPIC, concurrency=slots or None)
    async def handle(job: tarry.AsyncJob[str]) -> None:
        await side.ran_async(job.body)

    await worker.run()


if __name__ == "__main__":
    side.main(Tarry, work)
