"""Listening on channels, awaiting: one connection and one task a server (in a Cluster: a slot), for all of a client that waits there.

The task begins with the first channel and ends when there has been none for a while. Whenever it listens anew it rings
for all channels: what was said before is made up for by a look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis.exceptions as driver

from tarry.clients.aio.runner import Runner
from tarry.clients.aio.takers import read
from tarry.errors import TarryError
from tarry.idea.patience import FIRST, LONGEST
from tarry.links.awaiting import Server
from tarry.links.blocking import pack
from tarry.links.faults import TROUBLES, Lost

Ring = Callable[[], None]
QUIET_S = 5.0
"""After so long without a word the server is asked whether it is there; after as long again it is not."""
LINGER_S = 5.0


class Ears:
    """All channels of a client, in one event loop."""

    def __init__(self, runner: Runner, *, cluster: bool) -> None:
        self._runner = runner
        self._cluster = cluster
        self._ears: dict[int, _Ear] = {}

    def join(self, channel: bytes, ring: Ring) -> None:
        """Rings when it listens to the channel, and at each word."""
        place = self._runner.group_of(channel) if self._cluster else 0
        ear = self._ears.get(place)
        if ear is None:
            ear = self._ears[place] = _Ear(self._runner, self._cluster)
        ear.join(channel, ring)

    def leave(self, channel: bytes, ring: Ring) -> None:
        for ear in self._ears.values():
            ear.leave(channel, ring)

    async def close(self) -> None:
        for ear in self._ears.values():
            await ear.close()


class _Ear:
    def __init__(self, runner: Runner, cluster: bool) -> None:
        self._runner = runner
        self._orders = (b"SUBSCRIBE", b"SSUBSCRIBE") if cluster else (b"SUBSCRIBE",)
        self._rings: dict[bytes, list[Ring]] = {}
        self._heard: set[bytes] = set()
        self._server: Server | None = None
        self._line: Any = None
        self._task: asyncio.Task[None] | None = None
        self._new = asyncio.Event()
        self._reading: asyncio.Task[Any] | None = None
        self._failures = 0

    def join(self, channel: bytes, ring: Ring) -> None:
        self._rings.setdefault(channel, []).append(ring)
        if channel in self._heard:
            ring()
        else:
            self._new.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    def leave(self, channel: bytes, ring: Ring) -> None:
        rings = self._rings.get(channel, [])
        if ring in rings:
            rings.remove(ring)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        idle_since: float | None = None
        try:
            while idle_since is None or loop.time() - idle_since <= LINGER_S:
                try:
                    await self._listen()
                    self._failures = 0
                    idle_since = (idle_since or loop.time()) if await self._drop_idle() else None
                except (TarryError, *TROUBLES):
                    await self._hang_up()
                    await asyncio.sleep(min(FIRST * 2**self._failures, LONGEST))
                    self._failures = min(self._failures + 1, 10)
        finally:
            self._task = None
            await self._hang_up()

    async def _drop_idle(self) -> bool:
        """Leaves channels that nobody wants to hear; answers whether that is all of them."""
        idle = [channel for channel in self._heard if not self._rings.get(channel)]
        for channel in idle:
            self._heard.discard(channel)
            self._rings.pop(channel, None)
        if idle:
            await self._tell(*((order.replace(b"SUB", b"UNSUB"), c) for order in self._orders for c in idle))
        return not any(self._rings.values())

    async def _listen(self) -> None:
        """Hears until there has been silence for a while."""
        if self._line is None:
            await self._call()
        while True:
            if self._new.is_set():
                self._new.clear()
                fresh = [channel for channel in self._rings if channel not in self._heard]
                if fresh:
                    await self._tell(*((order, channel) for order in self._orders for channel in fresh))
            if not await self._hear():
                return

    async def _hear(self) -> bool:
        """One word; answers whether there was one, or something new to listen to."""
        new = asyncio.ensure_future(self._new.wait())
        try:
            for asked in (False, True):
                reading = self._reading = self._reading or asyncio.ensure_future(read(self._line))
                await asyncio.wait({reading, new}, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    self._reading = None
                    try:
                        self._heed(reading.result())
                    except driver.ResponseError as fault:
                        if "MOVED" in str(fault):
                            raise  # else a server that knows no channels of shards
                    return not asked
                if self._new.is_set():
                    return True
                if asked:
                    raise Lost("the listening connection has been silent for too long")
                await self._tell((b"PING",))
            raise AssertionError
        finally:
            new.cancel()

    def _heed(self, reply: Any) -> None:
        if reply[0] in (b"subscribe", b"ssubscribe"):
            self._heard.add(reply[1])
        if reply[0] in (b"message", b"smessage", b"subscribe", b"ssubscribe"):
            for ring in list(self._rings.get(reply[1], ())):
                ring()

    async def _tell(self, *orders: tuple[bytes, ...]) -> None:
        await self._line.send_packed_command([pack(order) for order in orders], check_health=False)

    async def _call(self) -> None:
        if self._failures > 1:
            with suppress(TarryError):
                await self._runner.refresh()
        server = await self._runner.server_of(next(iter(self._rings), b""))
        self._line = await server.connect()
        self._heard = set()
        self._new.set()

    async def _hang_up(self) -> None:
        line, self._line, task, self._reading, self._heard = self._line, None, self._reading, None, set()
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen: the line is gone anyway
        if line is not None:
            await line.disconnect(nowait=True)
