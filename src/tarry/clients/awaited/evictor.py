"""The evictor of an awaiting client: one task that keeps all its maps, and looks at all that are due in one round trip.

It begins with the first verb of the first map and ends with the last handle, or with the client.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tarry.clients.awaited.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import AdaptivePolicy
from tarry.verbs.mapcache.evictor_state import EvictedMap, EvictorState

if TYPE_CHECKING:
    from tarry.clients.awaited.engine import Engine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0
PAUSE_S = 1.0
LONGEST_SLEEP_S = 3600.0


class Evictor:
    """Keeps maps, in one event loop. ``drop`` may be called from a finalizer, in any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._state = EvictorState(engine.origin.new_waiter_name())
        self._wakeup = asyncio.Event()
        self._removed: list[tuple[bytes, int]] = []
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}
        self._users = count(1)
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def add(self, context: MapContext[Any, Any], policy: AdaptivePolicy | None) -> int:
        """From now on this map is kept, for one user of it more; answers which."""
        user = next(self._users)
        self._state.add(context, policy, user, self._loop.time())
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())
        self._wakeup.set()
        return user

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return self._state.is_used(key, user)

    def remove(self, key: bytes, user: int) -> None:
        """This user does without."""
        self._removed.append((key, user))
        with suppress(RuntimeError):  # the loop is closed: so is everything
            self._loop.call_soon_threadsafe(self._wakeup.set)

    async def close(self) -> None:
        """Others take over at once."""
        self._closed = True
        self._wakeup.set()
        if (task := self._task) is not None:
            await asyncio.wait({task}, timeout=CLOSING_S)
            task.cancel()
            await asyncio.wait({task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            try:
                self._wakeup.clear()
                await self._remove_dropped()
                if self._closed or not len(self._state):
                    self._task = None
                    break
                await self._subscribe()
                await self._evict_due()
                await self._wait()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the maps must be kept
                logger.warning("A map could not be kept, trying again: %s", fault)
                await asyncio.sleep(PAUSE_S)
        for evicted_map in self._state.maps:
            await self._leave_map(evicted_map)

    async def _evict_due(self) -> None:
        due = self._state.due(self._loop.time())
        evictions = [self._evict(evicted_map) for evicted_map in due]  # they leave together
        for evicted_map, fault in zip(due, await asyncio.gather(*evictions, return_exceptions=True), strict=True):
            if isinstance(fault, TarryError):
                logger.warning("The map %s could not be kept, trying again: %s", evicted_map.context.name, fault)
            elif fault is not None:
                raise fault

    async def _evict(self, evicted_map: EvictedMap) -> None:
        sent = self._loop.time()
        try:
            answer = await self._engine.runner.perform(evicted_map.first_step())
        except TarryError:
            self._state.failed(evicted_map, self._loop.time())
            raise
        rest = self._state.on_step(evicted_map, answer, sent, self._loop.time)
        if rest is not None:
            await self._engine.runner.run(rest)

    async def _wait(self) -> None:
        wait = self._state.next_due() - self._loop.time()
        if wait > 0 and len(self._state):
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait, LONGEST_SLEEP_S)):
                    await self._wakeup.wait()

    async def _subscribe(self) -> None:
        """Hears of entries that end sooner, in all maps that are kept."""
        self._pubsub = self._pubsub or self._engine.shared_part(PubSub)
        for evicted_map in self._state.maps:
            place = evicted_map.context.keys.hints
            if evicted_map.policy is None and place not in self._subscribers:
                self._subscribers[place] = await self._pubsub.subscribe(
                    evicted_map.context.keys.entries, (place,), self._on_message, wait=False
                )

    def _on_message(self, channel: bytes, message: bytes) -> None:
        if self._state.on_message(channel, message):
            self._wakeup.set()

    async def _remove_dropped(self) -> None:
        while self._removed:
            evicted_map = self._state.remove(*self._removed.pop())
            if evicted_map is not None:
                await self._leave_map(evicted_map)

    async def _leave_map(self, evicted_map: EvictedMap) -> None:
        """Gives the seat back, and hears no more of the map."""
        with suppress(TarryError, *CONNECTION_ERRORS):
            subscriber = self._subscribers.pop(evicted_map.context.keys.hints, None)
            if subscriber is not None and self._pubsub is not None:
                self._pubsub.unsubscribe(subscriber)
            request = evicted_map.leave_request()
            if request is not None:
                await self._engine.runner.perform(request)
