"""One run of a worker: its connections, its lanes, the thread that renews, and how they end.

lanes work ──▶ told to stop · a lane failed · nothing is due ──▶ no new jobs ──▶ grace ──▶ the rest is given back
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.blocking.topic import Topic
from tarry.errors import BadInput, Unavailable
from tarry.programs.worker import twins
from tarry.programs.worker.crew import Crew
from tarry.programs.worker.lane import Lane
from tarry.programs.worker.outage import Outage
from tarry.programs.worker.picking import picker
from tarry.programs.worker.presence import LONGEST_HOST, Presence
from tarry.programs.worker.registry import Route
from tarry.programs.worker.renewal import Renewal
from tarry.programs.worker.settling import Settler
from tarry.programs.worker.sharing import Share
from tarry.programs.worker.taking import QueueLane, QueueRoute
from tarry.programs.worker.timetable import TRY_AGAIN_S, Declaring
from tarry.values import names

if TYPE_CHECKING:
    from tarry.programs.worker.worker import Worker

logger = logging.getLogger("tarry.worker")


class Run:
    """Made in the loop that it runs in, for one time. ``idle_s`` is how long a pop waits; ``None`` is for ever."""

    def __init__(self, worker: Worker, clients: twins.Clients, idle_s: float | None) -> None:
        routes, queues = worker.routes(), worker.queue_routes()
        if not routes and not queues:
            raise BadInput(
                "worker: it has no handler; decorate a function with @worker.on(topic), @worker.task or @worker.on_queue(queue)."
            )
        self._worker = worker
        self._awaited, self._blocking = clients.fresh()
        self._outage = Outage()
        self._idle_s = idle_s
        worker.holder = worker.holder or _fresh_holder()
        share = None if worker.slots is None else Share(worker.slots)
        self._lanes = [self._made_lane(route, share, idle_s) for route in routes]
        self._queues = [self._made_queue_lane(route, idle_s) for route in queues]
        self._renewal = self._made_renewal(routes)
        self._declaring = Declaring(
            [lane.topic for lane in self._lanes], list(worker.all_planned().values()), self._outage
        )

    def _made_lane(self, route: Route, share: Share | None, idle_s: float | None) -> Lane:
        kind: Any = route.type
        topic: AsyncTopic[Any] = self._awaited.topic(route.topic, type=kind)
        blocking: Topic[Any] = self._blocking.topic(route.topic, type=kind)
        topic.verbs.holder = blocking.verbs.holder = self._worker.holder
        settler = Settler(topic, blocking, self._outage)
        lane = Lane(
            settler,
            picker(route, settler),
            slots=min(route.slots, self._worker.slots or route.slots),
            weight=route.weight,
            ttr=self._worker.ttr if route.ttr is None else route.ttr,
            outage=self._outage,
            share=share,
        )
        lane.idle_s = idle_s
        logger.info("▶ %s, %d slots", lane.topic.name, lane.slots)
        return lane

    def _made_queue_lane(self, route: QueueRoute, idle_s: float | None) -> QueueLane:
        queue = self._awaited.blocking_queue(route.queue, codec=route.codec)
        logger.info("▶ queue %s, %d slots", route.queue, route.slots)
        return QueueLane(route, queue, self._outage, idle_s)

    def _made_renewal(self, routes: list[Route]) -> Renewal:
        client = twins.blocking(self._awaited, patience=1)
        handlers = {route.topic: tuple(target.name for target in route.targets) for route in routes}
        presence = Presence(client, self._worker.holder, self._lanes, handlers, self._worker.slots)
        renewal = Renewal(client, self._lanes, self._outage, presence, self._worker.blocked_s)
        renewal.beat = self._worker.beat
        return renewal

    async def through(self, stopping: asyncio.Event, hurry: asyncio.Event) -> int:
        """From its beginning to its end; answers how many running jobs had to be given back."""
        if self._idle_s is not None:
            await self._declaring.once()
        stopped = asyncio.ensure_future(stopping.wait())
        self._renewal.start()
        declaring = asyncio.ensure_future(self._declaring.go_on(said=self._idle_s is not None))
        crew = Crew([*self._lanes, *self._queues])
        try:
            await self._keep_moving(stopped)
            await crew.until_over(stopped)
            self._renewal.tell_of_stopping()
            return await crew.end(self._worker.grace_s, hurry)
        finally:
            stopped.cancel()
            declaring.cancel()
            crew.dismiss()
            await self._renewal.stop()
            await self._awaited.close()
            self._blocking.close()

    async def _keep_moving(self, stopped: asyncio.Future[Any]) -> None:
        """For consumers in Java; a server that is not there yet is waited for."""
        if not self._worker.moving:
            return
        server = self._outage.part()
        while not stopped.done():
            try:
                await self._awaited.keep_moving(*self._worker.moving)
                server.over()
                return
            except Unavailable as fault:
                server.tell(fault)
                await asyncio.wait({stopped}, timeout=TRY_AGAIN_S)


def _fresh_holder() -> bytes:
    return f"{socket.gethostname()[:LONGEST_HOST]}:{os.getpid()}:".encode() + names.random_word(os.urandom)
