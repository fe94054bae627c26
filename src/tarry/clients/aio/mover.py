"""The mover of an awaiting client: one task that keeps all queues moving that the client consumes.

It begins with the first wait for a queue and ends with the client.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.aio.takers import read
from tarry.clients.queueing import CLOSING_S
from tarry.errors import TarryError
from tarry.links.blocking import pack
from tarry.links.faults import TROUBLES
from tarry.verbs.delayed.keeping import Keeper, look
from tarry.verbs.delayed.moving import transfer
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

logger = logging.getLogger("tarry")
LONGEST_SLEEP_S = 1.0


class Mover:
    """Keeps queues moving, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._keeper = Keeper(engine.origin.watcher())
        self._loop = asyncio.get_running_loop()
        self._line: Any = None
        self._message: asyncio.Task[Any] | None = None
        self._poke: asyncio.Future[None] = self._loop.create_future()
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def keep(self, keys: QueueKeys) -> None:
        """From now on this queue moves."""
        if self._keeper.add(keys):
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
            self._wake()

    async def close(self) -> None:
        """Others take over at their next look-around."""
        self._closed = True
        self._wake()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSING_S)
            self._task.cancel()
            await asyncio.wait({self._task})

    def _wake(self) -> None:
        if not self._poke.done():
            self._poke.set_result(None)

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            while not self._closed:
                try:
                    await self._look()
                    await self._listen()
                except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                    logger.warning("A queue could not be moved, trying again: %s", fault)
                    await self._hang_up()
                    await self._sleep(LONGEST_SLEEP_S)
            with suppress(TarryError, *TROUBLES):
                for kept in self._keeper.moving:
                    await self._runner.perform(transfer(kept.keys, me=kept.me))
        finally:
            await self._hang_up()

    async def _look(self) -> None:
        due = self._keeper.due(self._loop.time())
        looks = [self._runner.run(look(kept, self._keeper, self._loop.time)) for kept in due]
        for kept, fault in zip(due, await asyncio.gather(*looks, return_exceptions=True), strict=True):
            if isinstance(fault, BaseException):
                if not isinstance(fault, TarryError):
                    raise fault
                logger.warning("The queue %s could not be moved, trying again: %s", kept.keys.ready.decode(), fault)

    async def _listen(self) -> None:
        if self._poke.done():
            self._poke = self._loop.create_future()
            if self._line is not None and not self._closed:
                await self._subscribe()
            return
        if self._line is None and not await self._call():
            await self._sleep(max(min(self._keeper.until() - self._loop.time(), LONGEST_SLEEP_S), 0.01))
            return
        if self._message is None:
            self._message = asyncio.ensure_future(read(self._line))
        wait = max(min(self._keeper.until() - self._loop.time(), LONGEST_SLEEP_S), 0)
        await asyncio.wait({self._message, self._poke}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        if self._message.done():
            message, self._message = self._message, None
            try:
                reply = message.result()
            except TROUBLES:
                await self._hang_up()
            else:
                if reply[0] == b"message":
                    self._keeper.heard(reply[1], reply[2])

    async def _call(self) -> bool:
        """Subscribes to all channels; what was said before is made up for by a look."""
        try:
            self._line = await (await self._runner.server_of(self._keeper.channels[0])).connect()
        except (TarryError, *TROUBLES):
            return False
        await self._subscribe()
        self._keeper.deaf()
        return True

    async def _subscribe(self) -> None:
        words = (b"SUBSCRIBE", *self._keeper.channels)
        with suppress(*TROUBLES):  # then the next message is the connection's end
            await self._line.send_packed_command([pack(words)], check_health=False)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.wait({self._poke}, timeout=seconds)

    async def _hang_up(self) -> None:
        line, self._line, task, self._message = self._line, None, self._message, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen: the line is gone anyway
        if line is not None:
            await line.disconnect(nowait=True)
