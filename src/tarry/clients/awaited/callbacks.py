"""Calls of a listener's handler, awaiting: each listener has its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tarry.clients.awaited.interfaces import HandleEngine
from tarry.clients.channels import MOST_EVENTS, log_dropped


class Callbacks:
    """Calls functions one after the other, in one task."""

    def __init__(self) -> None:
        self._queued: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(MOST_EVENTS)
        self._dropped = 0
        self._ended = False
        self._idle: asyncio.Future[Callable[[], Awaitable[None]]] | None = None
        self._task = asyncio.ensure_future(self._run())

    @classmethod
    def for_listener(cls, engine: HandleEngine) -> Callbacks:  # noqa: ARG003  # as the blocking one
        return cls()

    def call_later(self, call: Callable[[], Awaitable[None]]) -> None:
        try:
            self._queued.put_nowait(call)
        except asyncio.QueueFull:
            self._dropped += 1
            log_dropped(self._dropped)

    async def end(self) -> None:
        """Ends it, after the call that runs now."""
        self._ended = True
        if self._task is not asyncio.current_task():
            if self._idle is not None:  # it has begun
                self._idle.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while not self._ended:
            self._idle = asyncio.ensure_future(self._queued.get())
            await asyncio.wait({self._idle})
            if self._idle.cancelled():
                return
            await self._idle.result()()
