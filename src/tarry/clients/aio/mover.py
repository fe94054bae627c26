"""The mover of an awaiting client: one task that keeps all queues moving that the client consumes, or was told to.

It begins with the first queue and ends with the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tarry.clients.aio.hearing import Hearing
from tarry.clients.hearing import Ear
from tarry.clients.queueing import CLOSING_S, LONGEST_SLEEP_S, PAUSE_S, Troubles
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.mover_state import MoverState

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine


class Mover:
    """Keeps queues moving, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._keeper = MoverState(engine.origin.watcher())
        self._loop = asyncio.get_running_loop()
        self._hearing: Hearing | None = None
        self._ears: dict[bytes, Ear] = {}
        self._heard: deque[tuple[bytes, bytes]] = deque()
        self._poke = asyncio.Event()
        self._closed = False
        self._troubles = Troubles()
        self._task: asyncio.Task[None] | None = None

    def keep(self, queues: Iterable[QueueKeys]) -> None:
        """From now on these queues move."""
        fresh = [keys for keys in queues if self._keeper.add(keys)]
        if not fresh:
            return
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        self._poke.set()

    async def close(self) -> None:
        """Its seats are free, and others are called."""
        self._closed = True
        self._poke.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSING_S)
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while not self._closed:
            try:
                await self._look()
                await self._listen()
                await self._wait()
                self._troubles.over("A queue")
            except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                self._troubles.tell("A queue", fault)
                self._poke.clear()
                await self._pause(0 if self._closed else PAUSE_S)
        with suppress(TarryError, *CONNECTION_ERRORS):
            await self._engine.runner.perform_all(self._keeper.leave_requests())

    async def _look(self) -> None:
        """One pipeline, for all queues that are to be looked at."""
        looks = self._keeper.due_queues(self._loop.time())
        if looks:
            answers = await self._engine.runner.perform_all([kept.request for kept in looks])
            for kept, answer in zip(looks, answers, strict=True):
                self._keeper.on_answer(kept, answer, self._loop.time())
                if isinstance(answer, Exception):
                    self._troubles.tell(kept.keys.ready.decode(), answer)
                else:
                    self._troubles.over(kept.keys.ready.decode())

    async def _listen(self) -> None:
        """Hears what its seats ask for; what cannot be heard now is tried again after the next look."""
        self._hearing = hearing = self._hearing or self._engine.part(Hearing)
        wanted = self._keeper.channels()
        for channel in self._ears.keys() - wanted:
            hearing.close_ear(self._ears.pop(channel))
        for channel in wanted - self._ears.keys():
            with suppress(TarryError):
                self._ears[channel] = await hearing.hear(channel, (channel,), self._hear, wait=False)

    def _hear(self, channel: bytes, message: bytes) -> None:
        self._heard.append((channel, message))
        self._poke.set()

    async def _wait(self) -> None:
        """Until the next look is due, or something was heard: after the looks, whose answers know less."""
        self._poke.clear()
        while self._heard:
            self._keeper.on_message(*self._heard.popleft())
        if not self._closed:
            await self._pause(max(min(self._keeper.next_due() - self._loop.time(), LONGEST_SLEEP_S), 0))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._poke.wait()
