"""Handlers of a map cache's events, blocking: one thread of the client calls them, one event after the other."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tarry.clients.blocking.interfaces import PartHost
from tarry.clients.blocking.pubsub import PubSub
from tarry.verbs.mapcache.models import KINDS, EventKind, MapEvent
from tarry.verbs.mapcache.verbs import MapVerbs

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

logger = logging.getLogger("tarry")
MOST_WAITING = 100_000
"""The most events that wait for slow handlers; further ones are dropped, and a warning is logged."""


class CallbackThread:
    """Calls handlers, in a thread of its own: neither a slow one nor one that talks to the server stops anything else."""

    def __init__(self, engine: PartHost) -> None:  # noqa: ARG002  # as every part of a client
        self._queued: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="tarry-events", daemon=True)
        self._thread.start()

    def call_later(self, call: Callable[[], None]) -> None:
        try:
            self._queued.put_nowait(call)
        except queue.Full:
            self._dropped += 1
            if self._dropped & (self._dropped - 1) == 0:  # 1, 2, 4, …
                logger.warning("Handlers of events are too slow: %d events were dropped.", self._dropped)

    def close(self) -> None:
        self._queued.put(None)

    def _run(self) -> None:
        while (call := self._queued.get()) is not None:
            call()
            del call  # it holds a handle


class MapListener:
    """A handler that is called with a map's events. A context manager; ``stop`` ends it."""

    def __init__(
        self,
        engine: HandleEngine,
        verbs: MapVerbs[Any, Any],
        keep: Callable[[], None],
        handler: Callable[[MapEvent[Any, Any]], Any],
        kinds: tuple[EventKind, ...],
    ) -> None:
        self._context = verbs.context
        self._handler = handler
        self._kinds: dict[bytes, EventKind] = {verbs.context.channel(kind): kind for kind in kinds or KINDS}
        self._engine = engine
        self._verbs = verbs
        self._keep_evictor = keep  # of the handle, which stays open as long as somebody listens

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._context.name!r}>"

    def _begin(self) -> MapListener:
        self._engine.run(self._verbs.listen())
        self._keep_evictor()
        self._announcer = self._engine.shared_part(CallbackThread)
        self._pubsub = self._engine.shared_part(PubSub)
        self._subscriber = self._pubsub.subscribe(self._verbs.keys.entries, tuple(self._kinds), self._on_message)
        return self

    def __enter__(self) -> MapListener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it; an event that is being handled is handled to its end."""
        self._pubsub.unsubscribe(self._subscriber)

    def _on_message(self, channel: bytes, message: bytes) -> None:
        if message:
            self._announcer.call_later(lambda: self._call_handler(self._kinds[channel], message))

    def _call_handler(self, kind: EventKind, message: bytes) -> None:
        if not self._subscriber.open:
            return
        try:
            event = self._context.event(kind, message)
            if event is not None:
                self._handler(event)
        except Exception:
            logger.exception("A handler of %s events of the map %s failed.", kind, self._context.name)
