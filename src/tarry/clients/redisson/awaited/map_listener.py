"""Handlers of a map cache's events, awaited: called with one event after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tarry.clients.awaited.concurrency import completed
from tarry.clients.awaited.pubsub import PubSub
from tarry.clients.awaited.pubsub_connection import Callbacks
from tarry.clients.channels import Subscriber
from tarry.values.functions import refuse_generator
from tarry.verbs.redisson.mapcache.map_values import KINDS, EventKind, MapEvent
from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

logger = logging.getLogger("tarry")


class AsyncMapListener:
    """A handler that is called with a map's events. A context manager; ``stop`` ends it."""

    def __init__(self, calls: HandlerCalls) -> None:
        self._calls = calls

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._calls.map!r}>"

    async def __aenter__(self) -> AsyncMapListener:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stops listening. An event that is being handled is handled to its end."""
        await self._calls.stop()


class HandlerCalls:
    """The calls of one handler, one after the other."""

    _callbacks: Callbacks
    _pubsub: PubSub
    _subscriber: Subscriber

    def __init__(
        self,
        engine: HandleEngine,
        verbs: MapVerbs[Any, Any],
        keep_evictor: Callable[[], None],
        handler: Callable[[MapEvent[Any, Any]], Any],
        kinds: tuple[EventKind, ...],
    ) -> None:
        refuse_generator(handler, "handler")
        self.map = verbs.context.name
        self._engine = engine
        self._verbs = verbs
        self._handler = handler
        self._kinds: dict[bytes, EventKind] = {verbs.context.channel(kind): kind for kind in kinds or KINDS}
        self._stopped = False
        self._keep_evictor = keep_evictor  # of the handle, which stays open as long as somebody listens

    async def begin(self) -> None:
        await self._engine.run(self._verbs.listen())
        self._keep_evictor()
        self._pubsub = self._engine.shared_part(PubSub)
        self._callbacks = Callbacks.for_listener(self._engine)
        try:
            self._subscriber = await self._pubsub.subscribe(
                self._verbs.keys.entries, tuple(self._kinds), self._on_message
            )
        except BaseException:
            await self._callbacks.end()
            raise

    async def stop(self) -> None:
        self._stopped = True
        self._pubsub.unsubscribe(self._subscriber)
        await self._callbacks.end()

    def _on_message(self, channel: bytes, message: bytes) -> None:
        if message:
            self._callbacks.call_later(lambda: self._call_handler(self._kinds[channel], message))

    async def _call_handler(self, kind: EventKind, message: bytes) -> None:
        if self._stopped:
            return
        try:
            event = self._verbs.context.event(kind, message)
            if event is not None:
                await completed(self._handler(event))
        except Exception:
            logger.exception("A handler of %s events of the map %s failed.", kind, self.map)
