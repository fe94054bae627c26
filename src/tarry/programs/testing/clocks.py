"""Clocks that workers live by: letting time pass runs what becomes due, each job at its own moment.

    clock.attach(worker)
    clock.advance("30m")     ──10:00── job ──10:05── job, fails ──10:05:01── again ────── 10:30
                                       └ runs          └ runs                └ runs

So a retry after a back-off, and a job that a handler adds, come in the same order as in a life of half an hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime

from tarry.clients.testing import Clock, TestClient
from tarry.errors import BadInput
from tarry.programs.worker.worker import Worker
from tarry.values.durations import Duration, duration_us
from tarry.values.durations import moment_us as us_of
from tarry.verbs.delayed.stats import QueueStats


class TestClock(Clock):
    """Imaginary time for one test: its server's, its clients' and its workers'."""

    __test__ = False

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.client = TestClient(url, self, namespace=namespace)
        self._workers: list[Worker] = []
        self._left = ExitStack()

    def attach(self, *workers: Worker) -> None:
        """Until the test ends these workers live here: their tasks are added to this server, their jobs go by this clock.

        They work when time is advanced; an application that has one beside it (``async with worker``) does not start it.
        """
        for worker in workers:
            self._left.enter_context(worker.using(self.client, beside=False))
            self._workers.append(worker)

    def advance(self, duration: Duration) -> None:
        """Lets time pass, and attached workers do what becomes due, each job at its moment. Raises ``BadInput``.

        Answers when all has been done. In an async test: ``await tarry_async_clock.advance(…)``.
        """
        if self._workers and _in_a_loop():
            raise BadInput("advance: an event loop runs; in an async test, await the advance of tarry_async_clock.")
        for worker in self.moments(duration):
            asyncio.run(worker.run_until_idle())

    def close(self) -> None:
        """The workers go back to where they were."""
        self._left.close()
        self._workers.clear()
        self.client.close()

    def moments(self, duration: Duration) -> Iterator[Worker]:
        """Lets time pass, and stops for each worker that has something to do, at its moment."""
        end = self.us + duration_us(duration, "duration")
        while True:
            while busy := [worker for worker in self._workers if self._has_work(worker)]:
                yield from busy
            if self.us == end:
                return
            self.advance_to(min([end, *self._coming()]))

    def _has_work(self, worker: Worker) -> bool:
        topics = [self.client.topic(route.topic).stats() for route in worker.routes()]
        return any(stats.ready and stats.paused_until is None for stats in topics) or any(
            stats.ready or stats.overdue for stats in self._queues(worker)
        )

    def _queues(self, worker: Worker) -> list[QueueStats]:
        return [self.client.blocking_queue(route.queue).stats() for route in worker.queue_routes()]

    def _coming(self) -> Iterator[int]:
        """The moments at which something begins: a job is due, a pause or somebody's reservation is over."""
        for worker in self._workers:
            for queue in self._queues(worker):
                if queue.next_due is not None and (us := us_of(queue.next_due)) > self.us:
                    yield us
        for topic in (self.client.topic(route.topic) for worker in self._workers for route in worker.routes()):
            stats = topic.stats()
            reserved = topic.list("reserved", limit=1) if stats.reserved else ()
            for moment in (stats.next_due, stats.paused_until, *(job.reserved_until for job in reserved)):
                if moment is not None and (us := us_of(moment)) > self.us:
                    yield us


class TestAsyncClock:
    """The same time for an async test: ``await clock.advance("30m")``."""

    __test__ = False

    def __init__(self, clock: TestClock) -> None:
        self.clock = clock

    @property
    def now(self) -> datetime:
        """The moment that it shows, in UTC."""
        return self.clock.now

    def attach(self, *workers: Worker) -> None:
        """Until the test ends these workers live here: their tasks are added to this server, their jobs go by this clock."""
        self.clock.attach(*workers)

    async def advance(self, duration: Duration) -> None:
        """Lets time pass, and attached workers do what becomes due, in this loop, each job at its moment."""
        for worker in self.clock.moments(duration):
            await worker.run_until_idle()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
