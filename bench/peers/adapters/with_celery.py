"""Celery: a prefork worker with a process a core, which acknowledges late, as advised for tasks that must not be lost."""

from __future__ import annotations

from datetime import UTC, datetime

import side
from celery import Celery

QUEUE = "orders"


def make_app(url: str) -> Celery:
    app = Celery("peers", broker=url)
    app.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        broker_connection_retry_on_startup=True,
    )
    app.task(name="peers.run")(run)
    return app


def run(body: str) -> None:
    side.ran(body)


class OfCelery(side.Adder):
    def __init__(self, url: str) -> None:
        self._task = make_app(url).tasks["peers.run"]

    def add(self, body: str, due: float) -> None:
        self._task.apply_async((body,), eta=datetime.fromtimestamp(due, UTC))


def work(url: str, slots: int) -> None:
    words = ["worker", "--loglevel", "WARNING", "--queues", QUEUE]
    make_app(url).worker_main([*words, "--concurrency", str(slots)] if slots else words)


if __name__ == "__main__":
    side.main(OfCelery, work)
