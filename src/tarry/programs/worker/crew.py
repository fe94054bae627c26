"""The lanes of one run of a worker, for topics and for queues: they start, tell and stop together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from tarry.programs.worker import tally
from tarry.programs.worker.lane import Lane
from tarry.programs.worker.taking import QueueLane

logger = logging.getLogger("tarry.worker")


class Crew:
    """Made and started in the loop in which it works."""

    def __init__(self, lanes: Sequence[Lane | QueueLane]) -> None:
        self._lanes = lanes
        self._work = [asyncio.create_task(lane.work()) for lane in lanes]
        self._telling = asyncio.create_task(self._tell_now_and_then())

    async def until_over(self, stopped: asyncio.Future[Any]) -> None:
        """Until it is told to stop, a lane fails, or all have found nothing more to do."""
        while True:
            left = [task for task in self._work if not task.done()]
            done, _ = await asyncio.wait({stopped, *left}, return_when=asyncio.FIRST_COMPLETED)
            failed = [task for task in done if task is not stopped and task.exception() is not None]
            if stopped.done() or failed:
                return
            if all(task.done() for task in self._work):
                for lane in self._lanes:
                    await lane.rest()
                return

    async def end(self, grace_s: float, hurry: asyncio.Event) -> int:
        """Takes nothing more, and lets what runs end. Answers how much was given back; raises what ended a lane."""
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(self._work)
        logger.info("■ stopping, %d jobs running", sum(len(lane.running) for lane in self._lanes))
        ends = await asyncio.gather(*[lane.end(grace_s, hurry) for lane in self._lanes])
        cut_off, unbegun = sum(late for late, _ in ends), sum(unbegun for _, unbegun in ends)
        logger.info("■ stopped, %d running jobs given back, %d not begun", cut_off, unbegun)
        faults = [task.exception() for task in self._work if not task.cancelled()]
        for fault in filter(None, faults):  # a lane ends by itself only with an error, or when nothing is due
            raise fault
        return cut_off

    def dismiss(self) -> None:
        for task in (self._telling, *self._work):
            task.cancel()

    async def _tell_now_and_then(self) -> None:
        try:
            while True:
                await asyncio.sleep(tally.EVERY_S)
                self._tell()
        finally:
            self._tell()

    def _tell(self) -> None:
        for lane in self._lanes:
            lane.tally.tell(len(lane.running))
