"""Calls of the listeners' handlers, blocking: one thread of a client makes them all."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from tarry.clients.blocking.interfaces import HandleEngine
from tarry.clients.channels import MOST_EVENTS, log_dropped


class Callbacks:
    """Calls functions one after the other, in one thread: neither a slow one nor one that asks the server stops anything else."""

    def __init__(self, engine: Any) -> None:  # noqa: ARG002  # as every part of a client
        self._queued: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_EVENTS)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="tarry-events", daemon=True)
        self._thread.start()

    @classmethod
    def for_listener(cls, engine: HandleEngine) -> Callbacks:
        return engine.shared_part(cls)

    def call_later(self, call: Callable[[], None]) -> None:
        try:
            self._queued.put_nowait(call)
        except queue.Full:
            self._dropped += 1
            log_dropped(self._dropped)

    def end(self) -> None:
        """Does nothing: other listeners use it, until the client is closed."""

    def close(self) -> None:
        self._queued.put(None)

    def _run(self) -> None:
        while (call := self._queued.get()) is not None:
            call()
            del call  # it holds a handle
