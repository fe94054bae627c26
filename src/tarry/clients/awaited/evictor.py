"""The evictor of an awaited client. It takes expired entries out of its maps, all that are due in one round trip.

It starts with the first verb of the first map and ends with the last handle, or with the client.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tarry.clients.awaited.concurrency import Background, Mutex, Signal
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
    """Evicts from maps, in one task. ``remove`` may be called in any thread, and by a finalizer."""

    # blocking: Evicts from maps, in one thread. ``add`` and ``remove`` may be called in any thread, ``remove`` by a finalizer, too.

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = EvictorState(engine.origin.new_waiter_name())
        self._wakeup = Signal()
        self._removed: deque[tuple[bytes, int]] = deque()
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}
        self._users = count(1)
        self._closed = False
        self._mutex = Mutex()
        self._background: Background | None = None

    def add(self, context: MapContext[Any, Any], policy: AdaptivePolicy | None) -> int:
        """Adds a user of a map, whose entries are evicted from now on. Returns the user's number."""
        with self._mutex:
            user = next(self._users)
            self._state.add(context, policy, user, time.monotonic())
            if self._background is None and not self._closed:
                self._background = Background("tarry-evictor", self._run)
        self._wakeup.set()
        return user

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return self._state.is_used(key, user)

    def remove(self, key: bytes, user: int) -> None:
        """Removes a user. A finalizer may run anywhere, so this locks nothing."""
        self._removed.append((key, user))
        self._wakeup.set_from_thread()

    async def close(self) -> None:
        """Hands the seats back: other clients take over at once."""
        with self._mutex:
            self._closed = True
            background = self._background
        self._wakeup.set()
        if background is not None:
            await background.join(CLOSING_S)

    # ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            try:
                self._wakeup.clear()  # whatever comes from here on is seen in the next round, if not in this one
                await self._remove_dropped()
                with self._mutex:
                    if self._closed or not len(self._state):
                        self._background = None
                        break
                await self._subscribe()
                await self._evict_due()
                await self._wait()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the maps must be kept
                logger.warning("A map could not be kept, trying again: %s", fault)
                await self._wakeup.wait(PAUSE_S)
        for evicted_map in self._state.maps:
            await self._leave_map(evicted_map)

    async def _evict_due(self) -> None:
        with self._mutex:
            due = self._state.due(time.monotonic())
        if not due:
            return
        runner, sent = self._engine.runner, time.monotonic()
        answers = await runner.send_batch([evicted_map.first_step() for evicted_map in due])
        for evicted_map, answer in zip(due, answers, strict=True):
            try:
                if isinstance(answer, TarryError):
                    with self._mutex:
                        self._state.failed(evicted_map, time.monotonic())
                    raise answer
                with self._mutex:
                    rest = self._state.on_step(evicted_map, answer, sent, time.monotonic)
                if rest is not None:
                    await runner.run(rest)
            except TarryError as fault:
                logger.warning("The map %s could not be kept, trying again: %s", evicted_map.context.name, fault)

    async def _wait(self) -> None:
        with self._mutex:
            wait = self._state.next_due() - time.monotonic() if len(self._state) else 0
        if wait > 0 and not self._closed:
            await self._wakeup.wait(min(wait, LONGEST_SLEEP_S))

    async def _subscribe(self) -> None:
        """Subscribes to the hints about entries that end sooner, for all kept maps."""
        self._pubsub = self._pubsub or self._engine.shared_part(PubSub)
        for evicted_map in self._state.maps:
            place = evicted_map.context.keys.hints
            if evicted_map.policy is None and place not in self._subscribers:
                self._subscribers[place] = await self._pubsub.subscribe(
                    evicted_map.context.keys.entries, (place,), self._on_message, wait=False
                )

    def _on_message(self, channel: bytes, message: bytes) -> None:
        with self._mutex:
            sooner = self._state.on_message(channel, message)
        if sooner:
            self._wakeup.set()

    async def _remove_dropped(self) -> None:
        while self._removed:
            with self._mutex:
                evicted_map = self._state.remove(*self._removed.popleft())
            if evicted_map is not None:
                await self._leave_map(evicted_map)

    async def _leave_map(self, evicted_map: EvictedMap) -> None:
        """Gives the seat back, and ends the subscription to the map's hints."""
        with suppress(TarryError, *CONNECTION_ERRORS):
            subscriber = self._subscribers.pop(evicted_map.context.keys.hints, None)
            if subscriber is not None and self._pubsub is not None:
                self._pubsub.unsubscribe(subscriber)
            request = evicted_map.leave_request()
            if request is not None:
                await self._engine.runner.perform(request)
