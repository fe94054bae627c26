"""Test clocks with attached workers: advancing the clock runs the jobs that become due, each at its own moment.

    clock.attach(worker)
    clock.advance("30m")     ──10:00── job ──10:05── job, fails ──10:05:01── again ────── 10:30
                                       └ runs          └ runs                └ runs

So a retry after a back-off, and a job that a handler adds, run in the same order as in half an hour of real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime

from tarry.clients.testing import Clock, TestClient
from tarry.errors import BadInput
from tarry.values.durations import Duration, duration_us
from tarry.values.durations import moment_us as us_of
from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.worker.worker import Worker, queues_of, topics_of


class TestClock(Clock):
    """Imaginary time for one test: for its server, its clients and its workers."""

    __test__ = False

    def __init__(self, url: str, namespace: str) -> None:
        super().__init__()
        self.client: TestClient = TestClient(url, self, namespace=namespace)
        """A client of the test's server, whose time is this clock's."""
        self._workers: list[Worker] = []
        self._attached = ExitStack()

    def attach(self, *workers: Worker) -> None:
        """Until the test ends, these workers use this server and this clock, and their tasks add jobs here.

        The workers work when the clock is advanced; ``async with worker`` in an application does not start them.
        """
        for worker in workers:
            self._attached.enter_context(worker.using(self.client, start=False))
            self._workers.append(worker)

    def advance(self, duration: Duration) -> None:
        """Advances the clock; attached workers run the jobs that become due, each at its moment. Returns when all are done.

        In an async test this raises ``BadInput``: use ``await tarry_async_clock.advance(…)``.
        """
        if self._workers and _in_a_loop():
            raise BadInput(
                "advance: an event loop is running; in an async test use await tarry_async_clock.advance(…)."
            )
        for worker in self.moments(duration):
            asyncio.run(worker.run_until_idle())

    def close(self) -> None:
        """Detaches the workers, and closes the client."""
        self._attached.close()
        self._workers.clear()
        self.client.close()

    def moments(self, duration: Duration) -> Iterator[Worker]:
        """Advances the clock step by step; yields each worker that has work at the present moment."""
        end = self.us + duration_us(duration, "duration")
        while True:
            while busy := [worker for worker in self._workers if self._has_work(worker)]:
                yield from busy
            if self.us == end:
                return
            self.advance_to(min([end, *self._next_moments()]))

    def _has_work(self, worker: Worker) -> bool:
        topics = [self.client.topic(name).stats() for name in topics_of(worker, self.client.topics)]
        return any(stats.ready and stats.limited is None for stats in topics) or any(
            stats.ready or stats.overdue for stats in self._queues(worker)
        )

    def _queues(self, worker: Worker) -> list[QueueStats]:
        return [self.client.blocking_queue(name).stats() for name in queues_of(worker)]

    def _next_moments(self) -> Iterator[int]:
        """The next moments at which a job becomes due, a limit or a pause allows one, or a reservation ends."""
        for worker in self._workers:
            for queue in self._queues(worker):
                if queue.next_due is not None and (us := us_of(queue.next_due)) > self.us:
                    yield us
        for topic in (
            self.client.topic(name) for worker in self._workers for name in topics_of(worker, self.client.topics)
        ):
            stats = topic.stats()
            reserved = topic.list("reserved", limit=1) if stats.reserved else ()
            allowed_at = None if stats.limited is None else stats.limited.until
            for moment in (stats.next_due, stats.paused_until, allowed_at, *(job.reserved_until for job in reserved)):
                if moment is not None and (us := us_of(moment)) > self.us:
                    yield us


class TestAsyncClock:
    """The test clock for an async test: ``await clock.advance("30m")``."""

    __test__ = False

    def __init__(self, clock: TestClock) -> None:
        self.clock = clock
        """The ``TestClock`` that this object advances."""

    @property
    def now(self) -> datetime:
        """The clock's time, in UTC."""
        return self.clock.now

    def attach(self, *workers: Worker) -> None:
        """Until the test ends these workers use this server and this clock, and their tasks add jobs here."""
        self.clock.attach(*workers)

    async def advance(self, duration: Duration) -> None:
        """Advances the clock; attached workers run the jobs that become due, in this event loop, each at its moment."""
        for worker in self.clock.moments(duration):
            await worker.run_until_idle()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
