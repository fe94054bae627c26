"""The mover of an awaiting client: one task that keeps all queues moving that the client consumes, or was told to.

It begins with the first queue and ends with the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.aio.takers import read
from tarry.clients.queueing import CLOSING_S, LONGEST_SLEEP_S, UNHEARD_S, tell_of_trouble
from tarry.errors import TarryError
from tarry.links.blocking import pack
from tarry.links.faults import TROUBLES
from tarry.verbs.delayed.keeping import Keeper
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine


class Mover:
    """Keeps queues moving, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._keeper = Keeper(engine.origin.watcher())
        self._loop = asyncio.get_running_loop()
        self._line: Any = None
        self._heard: set[bytes] = set()
        self._called = 0.0
        self._message: asyncio.Task[Any] | None = None
        self._poke = asyncio.Event()
        self._closed = False
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

    async def _say(self, commands: list[tuple[bytes, ...]]) -> None:
        if commands:
            with suppress(*TROUBLES):  # then the next reading is the connection's end
                await self._line.send_packed_command(list(map(pack, commands)), check_health=False)

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            while not self._closed:
                try:
                    await self._look()
                    await self._listen()
                except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                    tell_of_trouble("A queue", fault)
                    await self._hang_up()
                    await self._pause(UNHEARD_S)
            with suppress(TarryError, *TROUBLES):
                await self._runner.perform_all(self._keeper.farewells())
        finally:
            await self._hang_up()

    async def _look(self) -> None:
        """One pipeline, for all queues that are to be looked at."""
        looks = self._keeper.requests(self._loop.time())
        if looks:
            answers = await self._runner.perform_all([kept.request for kept in looks])
            for kept, answer in zip(looks, answers, strict=True):
                self._keeper.answered(kept, answer, self._loop.time())
                if isinstance(answer, Exception):
                    tell_of_trouble(kept.keys.ready.decode(), answer)

    async def _listen(self) -> None:
        self._poke.clear()
        if self._line is None and not await self._call():
            await self._pause(min(self._left(), UNHEARD_S))
            return
        await self._say(self._keeper.words(self._heard))
        wait = self._left()
        try:
            while await self._message_within(wait):
                message, self._message = self._message, None
                assert message is not None
                self._keeper.told(message.result())
                wait = 0
        except TROUBLES:
            await self._hang_up()
            if self._loop.time() - self._called < UNHEARD_S:  # perhaps nobody may listen here: looking goes on
                await self._pause(min(self._left(), UNHEARD_S))

    async def _message_within(self, seconds: float) -> bool:
        """Whether one is there; a poke ends the waiting for it."""
        if self._message is None:
            self._message = asyncio.ensure_future(read(self._line))
            await asyncio.sleep(0)  # one that lies there already is read in the first turn
        if not self._message.done() and seconds:
            poke = asyncio.ensure_future(self._poke.wait())
            await asyncio.wait({self._message, poke}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            poke.cancel()
        return self._message.done()

    def _left(self) -> float:
        return max(min(self._keeper.until() - self._loop.time(), LONGEST_SLEEP_S), 0)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._poke.wait(), max(seconds, 0.01))

    async def _call(self) -> bool:
        """A new line, on which nothing is heard yet."""
        try:
            self._line = await (await self._runner.server_of(self._keeper.somewhere)).connect()
        except (TarryError, *TROUBLES):
            return False
        self._heard, self._called = set(), self._loop.time()
        return True

    async def _hang_up(self) -> None:
        line, self._line, task, self._message = self._line, None, self._message, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen: the line is gone anyway
        if line is not None:
            await line.disconnect(nowait=True)
