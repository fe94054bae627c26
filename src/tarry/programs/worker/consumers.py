"""The lanes of one run of a worker, for topics and for queues: they start, tell and stop together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from tarry.programs.worker import tally
from tarry.programs.worker.queue_consumer import QueueConsumer
from tarry.programs.worker.topic_consumer import TopicConsumer

logger = logging.getLogger("tarry.worker")


class Consumers:
    """Made and started in the loop in which it works."""

    def __init__(self, consumers: Sequence[TopicConsumer | QueueConsumer]) -> None:
        self._consumers = consumers
        self._work = [asyncio.create_task(consumer.run()) for consumer in consumers]
        self._logging = asyncio.create_task(self._log_periodically())

    async def wait_until_over(self, stopped: asyncio.Future[Any]) -> None:
        """Until it is told to stop, a lane fails, or all have found nothing more to do."""
        while True:
            left = [task for task in self._work if not task.done()]
            done, _ = await asyncio.wait({stopped, *left}, return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in done if task is not stopped and task.exception() is not None]
            if stopped.done() or failed:
                return
            if all(task.done() for task in self._work):
                for consumer in self._consumers:
                    await consumer.wait_until_idle()
                return

    async def end(self, grace_s: float, stop_now: asyncio.Event) -> int:
        """Takes nothing more, and lets what runs end. Answers how much was given back; raises what ended a lane."""
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)
        logger.info("■ stopping, %d jobs running", sum(len(consumer.running) for consumer in self._consumers))
        ends = await asyncio.gather(*[consumer.stop(grace_s, stop_now) for consumer in self._consumers])
        cut_off, unbegun = sum(late for late, _ in ends), sum(unbegun for _, unbegun in ends)
        logger.info("■ stopped, %d running jobs given back, %d not begun", cut_off, unbegun)
        faults = [task.exception() for task in self._work if not task.cancelled()]
        for fault in filter(None, faults):  # a lane ends by itself only with an error, or when nothing is due
            raise fault
        return cut_off

    def cancel(self) -> None:
        for task in (self._logging, *self._work):
            task.cancel()

    async def _log_periodically(self) -> None:
        try:
            while True:
                await asyncio.sleep(tally.LOG_EVERY_S)
                self._log()
        finally:
            self._log()

    def _log(self) -> None:
        for consumer in self._consumers:
            consumer.tally.log(len(consumer.running))
