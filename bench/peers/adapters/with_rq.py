"""RQ: a worker that forks for each job and runs the scheduler, which looks every second; the function is imported before."""

from __future__ import annotations

from datetime import UTC, datetime

import rq
import side
from redis import Redis

QUEUE = "orders"


class Rq(side.Adder):
    def __init__(self, url: str) -> None:
        self._queue = rq.Queue(QUEUE, connection=Redis.from_url(url))

    def add(self, body: str, due: float) -> None:
        self._queue.enqueue_at(datetime.fromtimestamp(due, UTC), side.ran, body, result_ttl=0)


def work(url: str, _slots: int) -> None:
    worker = rq.Worker([QUEUE], connection=Redis.from_url(url))
    worker.work(with_scheduler=True, logging_level="WARNING")


if __name__ == "__main__":
    side.main(Rq, work)
