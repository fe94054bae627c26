"""Handlers of a map cache's events, awaiting: one task for each, one event after the other."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tarry.clients.awaited.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.verbs.mapcache.models import KINDS, EventKind, MapEvent
from tarry.verbs.mapcache.verbs import MapVerbs

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

logger = logging.getLogger("tarry")
MOST_WAITING = 100_000
"""The most events that wait for a slow handler; further ones are dropped, and a warning is logged."""


class AsyncMapListener:
    """A handler that is called with a map's events. A context manager; ``stop`` ends it."""

    def __init__(
        self,
        engine: HandleEngine,
        verbs: MapVerbs[Any, Any],
        keep: Callable[[], None],
        handler: Callable[[MapEvent[Any, Any]], Any],
        kinds: tuple[EventKind, ...],
    ) -> None:
        self._engine = engine
        self._verbs = verbs
        self._handler = handler
        self._kinds: dict[bytes, EventKind] = {verbs.context.channel(kind): kind for kind in kinds or KINDS}
        self._keep_evictor = keep  # of the handle, which stays open as long as somebody listens
        self._queued: asyncio.Queue[tuple[EventKind, bytes]] = asyncio.Queue(MOST_WAITING)
        self._dropped = 0
        self._pubsub: PubSub | None = None
        self._subscriber: Subscriber | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[tuple[EventKind, bytes]] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._verbs.context.name!r}>"

    async def _begin(self) -> AsyncMapListener:
        await self._engine.run(self._verbs.listen())
        self._keep_evictor()
        self._pubsub = self._engine.shared_part(PubSub)
        self._subscriber = await self._pubsub.subscribe(self._verbs.keys.entries, tuple(self._kinds), self._on_message)
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aenter__(self) -> AsyncMapListener:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends it; an event that is being handled is handled to its end."""
        if self._pubsub is not None and self._subscriber is not None:
            self._pubsub.unsubscribe(self._subscriber)
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            if self._idle is not None:  # it has begun
                self._idle.cancel()
            await asyncio.wait({task})

    def _on_message(self, channel: bytes, message: bytes) -> None:
        if not message:
            return
        try:
            self._queued.put_nowait((self._kinds[channel], message))
        except asyncio.QueueFull:
            self._dropped += 1
            if self._dropped & (self._dropped - 1) == 0:  # 1, 2, 4, …
                logger.warning("Handlers of events are too slow: %d events were dropped.", self._dropped)

    async def _run(self) -> None:
        while self._subscriber is not None and self._subscriber.open:
            self._idle = asyncio.ensure_future(self._queued.get())
            await asyncio.wait({self._idle})
            if self._idle.cancelled():
                return
            await self._call_handler(*self._idle.result())

    async def _call_handler(self, kind: EventKind, message: bytes) -> None:
        try:
            event = self._verbs.context.event(kind, message)
            if event is not None:
                answer = self._handler(event)
                if inspect.isawaitable(answer):
                    await answer
        except Exception:
            logger.exception("A handler of %s events of the map %s failed.", kind, self._verbs.context.name)
