"""The evictor of an awaiting client: one task that keeps all its maps, and looks at all that are due in one round trip.

It begins with the first verb of the first map and ends with the last handle, or with the client.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tarry.clients.aio.hearing import Hearing
from tarry.clients.hearing import Ear
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import AdaptivePolicy
from tarry.verbs.mapcache.evictor_state import EvictedMap, EvictorState

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0
PAUSE_S = 1.0
LONGEST_S = 3600.0


class Evictor:
    """Keeps maps, in one event loop. ``drop`` may be called from a finalizer, in any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._keeper = EvictorState(engine.origin.watcher())
        self._woken = asyncio.Event()
        self._dropped: list[tuple[bytes, int]] = []
        self._hearing: Hearing | None = None
        self._ears: dict[bytes, Ear] = {}
        self._users = count(1)
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def keep(self, context: MapContext[Any, Any], rule: AdaptivePolicy | None) -> int:
        """From now on this map is kept, for one user of it more; answers which."""
        user = next(self._users)
        self._keeper.add(context, rule, user, self._loop.time())
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())
        self._woken.set()
        return user

    def keeps(self, place: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return self._keeper.is_used(place, user)

    def drop(self, place: bytes, user: int) -> None:
        """This user does without."""
        self._dropped.append((place, user))
        with suppress(RuntimeError):  # the loop is closed: so is everything
            self._loop.call_soon_threadsafe(self._woken.set)

    async def close(self) -> None:
        """Others take over at once."""
        self._closed = True
        self._woken.set()
        if (task := self._task) is not None:
            await asyncio.wait({task}, timeout=CLOSING_S)
            task.cancel()
            await asyncio.wait({task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while True:
            try:
                self._woken.clear()
                await self._let_go()
                if self._closed or not len(self._keeper):
                    self._task = None
                    break
                await self._listen()
                await self._look()
                await self._wait()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the maps must be kept
                logger.warning("A map could not be kept, trying again: %s", fault)
                await asyncio.sleep(PAUSE_S)
        for kept in self._keeper.maps:
            await self._leave(kept)

    async def _look(self) -> None:
        due = self._keeper.due(self._loop.time())
        looks = [self._look_at(kept) for kept in due]  # they leave together
        for kept, fault in zip(due, await asyncio.gather(*looks, return_exceptions=True), strict=True):
            if isinstance(fault, TarryError):
                logger.warning("The map %s could not be kept, trying again: %s", kept.context.name, fault)
            elif fault is not None:
                raise fault

    async def _look_at(self, kept: EvictedMap) -> None:
        sent = self._loop.time()
        try:
            answer = await self._engine.runner.perform(kept.first_step())
        except TarryError:
            self._keeper.failed(kept, self._loop.time())
            raise
        rest = self._keeper.on_step(kept, answer, sent, self._loop.time)
        if rest is not None:
            await self._engine.runner.run(rest)

    async def _wait(self) -> None:
        wait = self._keeper.next_due() - self._loop.time()
        if wait > 0 and len(self._keeper):
            with suppress(TimeoutError):
                async with asyncio.timeout(min(wait, LONGEST_S)):
                    await self._woken.wait()

    async def _listen(self) -> None:
        """Hears of entries that end sooner, in all maps that are kept."""
        self._hearing = self._hearing or self._engine.part(Hearing)
        for kept in self._keeper.maps:
            place = kept.context.keys.hints
            if kept.policy is None and place not in self._ears:
                self._ears[place] = await self._hearing.hear(
                    kept.context.keys.entries, (place,), self._heard, wait=False
                )

    def _heard(self, channel: bytes, message: bytes) -> None:
        if self._keeper.on_message(channel, message):
            self._woken.set()

    async def _let_go(self) -> None:
        while self._dropped:
            kept = self._keeper.remove(*self._dropped.pop())
            if kept is not None:
                await self._leave(kept)

    async def _leave(self, kept: EvictedMap) -> None:
        """Gives the seat back, and hears no more of the map."""
        with suppress(TarryError, *CONNECTION_ERRORS):
            ear = self._ears.pop(kept.context.keys.hints, None)
            if ear is not None and self._hearing is not None:
                self._hearing.close_ear(ear)
            farewell = kept.leave_request()
            if farewell is not None:
                await self._engine.runner.perform(farewell)
