"""A worker: lanes, one a topic, that start and stop together.

first signal    no new jobs; what runs gets the grace period; what still runs then is given back, uncounted
second signal   no grace
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

from tarry.clients.aio.client import AsyncClient
from tarry.errors import BadInput
from tarry.programs.worker.lane import Handler, Lane
from tarry.verbs.codecs import Codec
from tarry.words.durations import SECOND, Duration, microseconds

logger = logging.getLogger("tarry.worker")
TTR: Duration = 15
"""Short, for it is renewed: what a dead worker held comes back after so long."""
GRACE: Duration = 10
CONCURRENCY = 100


class Worker:
    """Calls your functions when jobs are due: pops, runs, finishes; what raises is released with back-off.

    ``ttr`` is how soon the jobs of a killed worker come back; running jobs are renewed well before it is over.
    ``grace`` is how long running handlers may go on after ``stop``.
    """

    def __init__(self, client: AsyncClient, *, ttr: Duration = TTR, grace: Duration = GRACE) -> None:
        self._client = client
        self._ttr = ttr
        self._grace_s = microseconds(grace, "grace") / SECOND
        self._lanes: dict[str, Lane] = {}
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def on(
        self,
        topic: str,
        *,
        concurrency: int = CONCURRENCY,
        type: type[Any] | Codec[Any] | None = None,
        ttr: Duration | None = None,
    ) -> Callable[[Handler], Handler]:
        """The function below handles the jobs of a topic, at most ``concurrency`` at a time."""
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            raise BadInput(f"concurrency: {concurrency!r}; it is a whole number, at least 1.")
        if topic in self._lanes:
            raise BadInput(f"topic: {topic!r} has a handler already.")
        place = self._client.topic(topic, type=type)

        def register(handler: Handler) -> Handler:
            self._lanes[topic] = Lane(place, handler, concurrency, self._ttr if ttr is None else ttr)
            return handler

        return register

    def stop(self) -> None:
        """No new jobs; ``run`` returns when the running ones have ended. A second call gives them no more time."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> None:
        """Works until ``stop`` is called or, with ``signals``, SIGTERM or SIGINT arrives. Closes the client.

        Raises what makes going on senseless: ``ServerUnfit``, ``BadInput``. An unreachable server is waited for.
        """
        if not self._lanes:
            raise BadInput("worker: it has no handler; decorate a function with @worker.on(topic).")
        loop = asyncio.get_running_loop()
        if signals:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        for topic in self._lanes:
            logger.info("▶ %s, %d slots", topic, self._lanes[topic].slots)
        stopped = asyncio.ensure_future(self._stopping.wait())
        lanes = [asyncio.create_task(lane.work()) for lane in self._lanes.values()]
        try:
            await asyncio.wait({stopped, *lanes}, return_when=asyncio.FIRST_COMPLETED)
            await self._end(lanes)
            for lane in lanes:
                if not lane.cancelled():
                    lane.result()  # a lane ends by itself only with an error
        finally:
            stopped.cancel()
            if signals:
                for number in (signal.SIGTERM, signal.SIGINT):
                    loop.remove_signal_handler(number)
            await self._client.close()

    async def _end(self, lanes: list[asyncio.Task[None]]) -> None:
        for work in lanes:
            work.cancel()
        await asyncio.wait(lanes)
        running = sum(lane.busy for lane in self._lanes.values())
        logger.info("■ stopping, %d jobs running", running)
        ends = asyncio.gather(*[lane.end(self._grace_s, self._hurry) for lane in self._lanes.values()])
        given_back = sum(await ends)
        logger.info("■ stopped, %d jobs given back", given_back)
