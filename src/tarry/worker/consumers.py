"""The consumers of one run of a worker, of topics and of queues: started, logged and stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from tarry.connections.background import supervise_task
from tarry.worker import log_lines
from tarry.worker.topic_consumer import TopicConsumer

if TYPE_CHECKING:
    from tarry.worker.queue_consumer import QueueConsumer

logger = logging.getLogger("tarry.worker")


class Consumers:
    """The consumers as tasks of the running event loop. Constructing it starts them; they take no jobs before ``ready`` returns."""

    def __init__(
        self,
        consumers: Sequence[TopicConsumer | QueueConsumer],
        *,
        ready: Callable[[], Awaitable[None]] | None = None,
        ends_when_idle: bool = False,
    ) -> None:
        self._consumers = list(consumers)
        self._ready = ready
        self._ends_when_idle = ends_when_idle
        self._quiet = False
        self._mode_asked = asyncio.Event()
        self._quiet_asked = self._held_back = self._stopped = False
        self._tasks = self._start()
        self._logging = asyncio.create_task(supervise_task("tarry log", self._log_periodically))

    def _start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._run(consumer)) for consumer in self._consumers]

    async def _run(self, consumer: TopicConsumer | QueueConsumer) -> None:
        if self._ready is not None:
            await self._ready()
        await consumer.run()

    def add(self, consumer: TopicConsumer, *, start: bool) -> None:
        """One more, of a topic that was found. Without ``start`` it begins with the others when they start again."""
        self._consumers.append(consumer)
        if start and not (self._quiet or self._stopped):
            task = asyncio.create_task(self._run(consumer))
            task.add_done_callback(lambda _: self._mode_asked.set())  # the wait for the others looks at this one, too
            self._tasks.append(task)

    def start_again(self) -> None:
        """Starts them once more, after they have ended because nothing was due."""
        self._tasks = self._start()

    def be_quiet(self, quiet: bool) -> None:
        """Takes no new jobs from now on, or takes them again. The running ones go on."""
        self._quiet_asked = quiet
        self._mode_asked.set()

    def hold_back(self, held_back: bool) -> None:
        """Takes no new jobs, or takes them again: others may take this worker for dead."""
        self._held_back = held_back
        self._mode_asked.set()

    async def _change_mode(self) -> None:
        self._mode_asked.clear()
        quiet = self._quiet_asked or self._held_back
        if quiet == self._quiet:
            return
        self._quiet = quiet
        if self._quiet:
            await self._pop_no_more()
            logger.info(
                "‖ %s: no new jobs, %d running",
                "quiet" if self._quiet_asked else "cut off", sum(consumer.busy for consumer in self._consumers),
            )  # fmt: skip
        else:
            logger.info("▶ taking jobs again")
            self._tasks = self._start()

    async def wait_until_done(self, *stopped: asyncio.Future[Any]) -> None:
        """Returns when one of ``stopped`` is done, when a consumer failed, or when all consumers ended because nothing is due and
        nothing runs."""
        while self._tasks or not self._ends_when_idle:
            asked = asyncio.ensure_future(self._mode_asked.wait())
            left = [task for task in self._tasks if not task.done()]
            try:
                await asyncio.wait({*stopped, *left, asked}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                asked.cancel()
            if any(one.done() for one in stopped) or self.any_failed():
                return
            if self._mode_asked.is_set():
                await self._change_mode()
                if self.any_failed():
                    return
            elif not self._quiet and all(task.done() for task in self._tasks):
                return

    async def take_no_more(self, stopped: asyncio.Future[Any]) -> None:
        """Takes no new jobs, and waits until no handler runs, or until ``stopped`` is done."""
        self._stopped = True
        await self._pop_no_more()
        idle = asyncio.gather(*[consumer.wait_until_idle() for consumer in self._consumers])
        await asyncio.wait({stopped, idle}, return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()

    async def stop(self, grace_s: float, stop_now: asyncio.Event) -> int:
        """Takes no new jobs and waits for the running ones.

        Returns how many running jobs were released. Raises the error that ended a consumer.
        """
        self._stopped = True
        await self._pop_no_more()
        logger.info("■ stopping, %d jobs running", sum(consumer.busy for consumer in self._consumers))
        counts = await asyncio.gather(*[consumer.stop(grace_s, stop_now) for consumer in self._consumers])
        cut_off, not_started = sum(late for late, _ in counts), sum(not_started for _, not_started in counts)
        logger.info("■ stopped, %d running jobs released, %d not begun", cut_off, not_started)
        faults = [task.exception() for task in self._tasks if not task.cancelled()]
        for fault in filter(None, faults):  # a consumer ends by itself only with an error, or when nothing is due
            raise fault
        return cut_off

    async def _pop_no_more(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def any_failed(self) -> bool:
        """Whether a consumer ended with an error."""
        return any(task.done() and not task.cancelled() and task.exception() is not None for task in self._tasks)

    def cancel(self) -> None:
        for task in (self._logging, *self._tasks):
            task.cancel()

    async def _log_periodically(self) -> None:
        try:
            while True:
                await asyncio.sleep(log_lines.LOG_EVERY_S)
                self._log()
        finally:
            self._log()

    def _log(self) -> None:
        log_lines.log_tallies((consumer.tally, consumer.busy) for consumer in self._consumers)
