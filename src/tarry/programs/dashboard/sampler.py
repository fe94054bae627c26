"""Samples the stats of every topic each ten seconds, for rates and lateness over time. Writes nothing to the server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tarry import Stats
from tarry.errors import TarryError
from tarry.internal import supervise_task
from tarry.programs.dashboard.history import History

if TYPE_CHECKING:
    from tarry import AsyncClient

logger = logging.getLogger("tarry")
EVERY_S = 10.0
TOPICS_AT_ONCE = 100
"""How many topics are read in one pipeline."""
MOST_BYTES = 64 << 20
DROPPED_AT_ONCE = 1000


class Sampler:
    """Runs in the background from the first request on. A sample that fails is skipped."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._histories: dict[str, History] = {}
        self._task: asyncio.Task[None] | None = None

    def of(self, topic: str) -> History:
        """The history of a topic."""
        return self._histories.get(topic) or History()

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(supervise_task("tarry sampler", self._run))

    def stop_nowait(self) -> None:
        """Stops sampling, without waiting for the task."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def sample(self) -> None:
        """Takes one sample."""
        names = await self._client.topics()
        for at in range(0, len(names), TOPICS_AT_ONCE):
            requests = [self._client.topic(name).stats() for name in names[at : at + TOPICS_AT_ONCE]]
            for found in await asyncio.gather(*requests, return_exceptions=True):
                if isinstance(found, Stats):
                    self._histories.setdefault(found.topic, History()).record(found)
        for name in self._histories.keys() - set(names):
            del self._histories[name]
        self._limit_memory()

    def _limit_memory(self) -> None:
        """Drops the oldest records of the largest histories until the limit of memory is kept."""
        total = sum(history.bytes for history in self._histories.values())
        while total > MOST_BYTES:
            largest = max(self._histories.values(), key=lambda history: history.bytes)
            before = largest.bytes
            for _ in range(DROPPED_AT_ONCE):
                if largest.bytes:
                    largest.drop_oldest()
            total -= before - largest.bytes

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.sample()
            except TarryError as fault:
                logger.debug("The dashboard could not sample the topics: %s", fault)
            due = max(due + EVERY_S, loop.time())
            await asyncio.sleep(due - loop.time())
