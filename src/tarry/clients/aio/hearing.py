"""The subscriptions of an awaiting client: one connection, and one task that reads it, for all who listen in an event loop.

    hear ─▶ line ◀── server          one line; on a Cluster one for each node that has a channel which somebody wants
              │ message
              ▼
            ear.hear(channel, message)          in the line's task: it must be quick

It begins with the first who listens and ends with the last, or with the client. A line that breaks is called again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.exceptions as driver

from tarry.clients.answers import given_up
from tarry.clients.hearing import QUIET_S, TAKEN_AWAY, Ear, Hear, Roll
from tarry.connections.awaited import Server, abort_connection, send
from tarry.connections.blocking import Args
from tarry.connections.faults import CONNECTION_ERRORS, Fault, fault_of
from tarry.core.patience import LONGEST_DELAY_S
from tarry.errors import TarryError, Unavailable

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

logger = logging.getLogger("tarry")


class Hearing:
    """Everybody of one client who listens, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._sharded = engine.origin.address.kind == "cluster"
        self._patience_s = engine.origin.patience.bound
        self._lines: dict[int, _Line] = {}
        self._closed = False

    async def hear(self, key: bytes, channels: tuple[bytes, ...], hear: Hear, *, wait: bool = True) -> Ear:
        """From when this returns, no message of the channels is missed, unless the connection breaks.

        Raises ``Unavailable`` when the server does not confirm it in time. Without ``wait`` it is heard a little later.
        """
        confirmed = asyncio.Event()
        ear = Ear(key, channels, hear, confirmed.set)
        try:
            await self._assign(ear)
        except Fault as fault:
            raise given_up(fault, "its URL", 0.0) from fault
        if wait:
            try:
                async with asyncio.timeout(max(self._patience_s, 1.0)):
                    await confirmed.wait()
            except TimeoutError:
                self.close_ear(ear)
                raise Unavailable(
                    f"The server did not confirm within {self._patience_s:g} s that it will tell what happens."
                ) from None
            except BaseException:
                self.close_ear(ear)
                raise
        return ear

    def close_ear(self, ear: Ear) -> None:
        """It hears nothing more."""
        ear.open = False
        for line in list(self._lines.values()):
            line.remove(ear)

    async def close(self) -> None:
        self._closed = True
        lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            await line.close()

    async def _assign(self, ear: Ear) -> None:
        await self._runner.ready()
        server = await self._runner.server_of(ear.key)
        if self._closed:
            raise Unavailable("The client was closed.")
        if not ear.open:
            return
        line = self._lines.get(id(server))
        if line is None:
            line = self._lines[id(server)] = _Line(self, server, Roll(sharded=self._sharded))
        line.add(ear)

    def _ended(self, line: _Line) -> bool:
        """A line without ears ends."""
        if line.roll.ears:
            return False
        self._lines.pop(id(line.server), None)
        return True

    async def _rehome(self, line: _Line) -> None:
        """After a line was lost: ears whose server is another one now are heard there."""
        with suppress(TarryError, Fault):
            await self._runner.refresh()
        for ear in list(line.roll.ears):
            with suppress(TarryError, Fault):
                if await self._runner.server_of(ear.key) is not line.server:
                    line.remove(ear)
                    await self._assign(ear)


class _Line:
    """One connection to one server, and its task."""

    def __init__(self, hearing: Hearing, server: Server, roll: Roll) -> None:
        self.server = server
        self.roll = roll
        self._hearing = hearing
        self._connection: Any = None
        self._unsaid: list[Args] = []
        self._changed = asyncio.Event()
        self._failures = 0
        self._task = asyncio.ensure_future(self._run())

    def add(self, ear: Ear) -> None:
        self._say(self.roll.add(ear))

    def remove(self, ear: Ear) -> None:
        self._say(self.roll.remove(ear))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    def _say(self, commands: list[Args]) -> None:
        """Without a connection nothing is said: a new one is told everything."""
        if commands:
            self._unsaid += commands
            self._changed.set()

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            while not self._hearing._ended(self):
                try:
                    self._connection = await self.server.connect()
                    await self._live()
                    await self._hang_up()  # somebody may have begun to listen meanwhile: then it is called again
                except CONNECTION_ERRORS as fault:
                    await self._hang_up()
                    logger.info("The line that events come by broke, calling again: %s", fault)
                    await asyncio.sleep(min(0.02 * 2**self._failures, LONGEST_DELAY_S))
                    self._failures = min(self._failures + 1, 10)
                    await self._hearing._rehome(self)
        finally:
            await self._hang_up()

    async def _live(self) -> None:
        """Says and hears on a new connection, until it breaks or nobody listens any more."""
        self._unsaid = self.roll.anew()
        reading = asyncio.ensure_future(self._read())
        asked = False
        try:
            while self.roll.ears:
                self._changed.clear()
                said, self._unsaid = self._unsaid, []
                if said:
                    await send(self._connection, said)
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    done, _ = await asyncio.wait(
                        {reading, changed}, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    changed.cancel()
                if reading in done:
                    asked = False
                    try:
                        self._heard(reading.result())
                        self._failures = 0  # who may connect, but not listen, tries ever more seldom
                    except driver.ResponseError as refused:
                        if not self.roll.sharded or "unknown command" not in str(refused).lower():
                            raise
                        self.roll.sharded = False  # a Cluster that is older than sharded channels
                        self._unsaid = self.roll.anew()
                    reading = asyncio.ensure_future(self._read())
                elif not done:
                    if asked:
                        raise fault_of(TimeoutError("the line has been silent for too long"))
                    asked = True
                    self._unsaid.append((b"PING",))
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            if not reading.cancelled():
                reading.exception()  # seen: the line is gone anyway

    async def _read(self) -> Any:
        return await self._connection.read_response(timeout=math.inf, disconnect_on_error=False)

    def _heard(self, reply: Any) -> None:
        if isinstance(reply, list) and reply[0] == TAKEN_AWAY and self._wanted(reply[1]):
            raise fault_of(ConnectionError("the channel's slot has moved"))
        for ear, channel, message in self.roll.read(reply):
            if ear.open:
                try:
                    ear.hear(channel, message)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", channel)

    def _wanted(self, channel: bytes) -> bool:
        return any(channel in ear.channels for ear in self.roll.ears)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await abort_connection(connection)
