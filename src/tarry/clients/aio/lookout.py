"""The lines on which an awaiting client waits: some that block, and beyond those one lookout a node, for all others.

    waiter ─▶ line ── BLPOP ──▶ node          at most 16 in a process (tarry.links.budget)
    waiter ─▶ heard line ──wish──▶ lookout ── one connection, one task ──▶ node          (tarry.links.lookout)

A lookout's connection is its task's: others leave their wishes in its box, and wake it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from tarry.links import budget
from tarry.links.awaiting import Server, WaitingLine, hang_up, read_any, send
from tarry.links.faults import TROUBLES, Fault, Lost, meaning
from tarry.links.lookout import LINGER_S, LOOK_AROUND_S, Orders, Wish, Words

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

logger = logging.getLogger("tarry")


class Lookout:
    """One connection to one server, and its task, as long as anybody wishes."""

    look_around_s, linger_s = LOOK_AROUND_S, LINGER_S

    def __init__(self, server: Server, *, tied: bool) -> None:
        self.server = server
        self._orders = Orders(tied=tied)
        self._box: deque[Wish] = deque()
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None
        self._busy_at = self._looked_at = _now()
        self._owed_since: float | None = None

    def post(self, wish: Wish) -> None:
        """A new wish, or one that is not wanted any more."""
        self._box.append(wish)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        self._rung.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            while not self._is_over():
                try:
                    await self._read_box()
                    await self._rest()
                    await self._hear()
                    if self._is_over():
                        await self._hang_up(Lost("nobody wishes for anything"))
                except (TimeoutError, *TROUBLES) as error:
                    await self._hang_up(_meaning(error))
        finally:
            await self._hang_up(Lost("the client was closed"))

    def _is_over(self) -> bool:
        """Nobody has wished for anything for a while."""
        if not self._orders.idle or self._box:
            self._busy_at = _now()
        return _now() >= self._busy_at + self.linger_s

    async def _read_box(self) -> None:
        if not self._box:
            return
        if self._connection is None:
            self._connection = await self.server.connect(told=True)
            self._reading = asyncio.ensure_future(read_any(self._connection))
            self._looked_at = _now()
            await self._say(self._orders.begin())
        said: list[Words] = []
        while self._box:
            said += self._take(self._box.popleft())
        await self._say(said)

    def _take(self, wish: Wish) -> list[Words]:
        if wish.wanted:
            return self._orders.add(wish)
        self._orders.remove(wish)
        return []

    async def _rest(self) -> None:
        """Until there is something to do; looks around when it is time."""
        if self._orders.idle:
            until = self._busy_at + self.linger_s
        else:
            if _now() >= self._looked_at + self.look_around_s:
                self._looked_at = _now()
                await self._say(self._orders.look_around())
            until = self._looked_at + self.look_around_s
        if self._owed_since is not None:
            until = min(until, self._owed_since + self.server.answer_s)
        rung = asyncio.ensure_future(self._rung.wait())
        try:
            sources = {rung} if self._reading is None else {rung, self._reading}
            await asyncio.wait(sources, timeout=max(until - _now(), 0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            rung.cancel()
        self._rung.clear()

    async def _hear(self) -> None:
        while self._reading is not None and self._reading.done():
            reply = self._reading.result()
            self._reading = asyncio.ensure_future(read_any(self._connection))
            self._owed_since = _now()
            await self._say(self._orders.read(reply))
        if not self._orders.awaiting:
            self._owed_since = None
        elif self._owed_since is not None and _now() >= self._owed_since + self.server.answer_s:
            raise Lost("the lookout's connection has been silent for too long")

    async def _say(self, commands: list[Words]) -> None:
        if commands:
            self._owed_since = self._owed_since or _now()
            async with asyncio.timeout(self.server.answer_s):
                await send(self._connection, commands)

    async def _hang_up(self, fault: Fault) -> None:
        connection, self._connection, self._owed_since = self._connection, None, None
        reading, self._reading = self._reading, None
        while self._box:
            self._take(self._box.popleft())
        self._orders.broke(fault)
        try:
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
                if not reading.cancelled():
                    reading.exception()  # seen: the line is gone anyway
        finally:
            if connection is not None:
                await hang_up(connection)
                logger.debug("A lookout hung up: %s", fault)


class HeardLine:
    """A place at a lookout, in the shape of a line that blocks."""

    def __init__(self, lines: Lines) -> None:
        self.keys: tuple[bytes, ...] = ()
        self._lines = lines
        self._lookout: Lookout
        self._wish: Wish
        self._over: asyncio.Future[None]

    async def go_to(self, server: Server) -> None:
        self._lookout = self._lines.lookout(server)

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        self._over = over = asyncio.get_running_loop().create_future()
        self._wish = Wish(keys, lambda: None if over.done() else over.set_result(None))
        self.keys = keys
        self._lookout.post(self._wish)

    async def wait(self, seconds: float, poke: asyncio.Future[None]) -> tuple[bool, bytes | None]:
        """Until a token comes, the time is up, or somebody pokes. Answers whether the wait is over, and the key whose token
        came. Raises a ``Fault``."""
        await asyncio.wait({self._over, poke}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        if not self._wish.over:
            return False, None
        self.keys = ()
        if self._wish.fault is not None:
            raise self._wish.fault
        return True, self._wish.token

    async def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        self._wish.wanted = False
        self._lookout.post(self._wish)
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        over, key = await self.wait(self._lookout.server.answer_s, never)
        if not over:
            await self.drop()
            raise Lost("the lookout did not answer")
        return key

    async def drop(self) -> None:
        if self.keys:
            self.keys = ()
            self._wish.wanted = False
            self._lookout.post(self._wish)


class Lines:
    """All lines of one client in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._tied = engine.origin.address.kind == "cluster"
        self._budget = budget.BLOCKED if self._tied else budget.SINGLE
        self._free: list[WaitingLine] = []
        self._lookouts: dict[int, Lookout] = {}

    def take(self, near: Server | None) -> WaitingLine | HeardLine:
        """A line that blocks, one that is connected to this server if there is one; or one that is heard."""
        permit = self._budget.take()
        if permit is None:
            return HeardLine(self)
        free = next((line for line in self._free if line.is_at(near)), self._free[-1] if self._free else None)
        if free is not None:
            self._free.remove(free)
        line = free or WaitingLine()
        line.permit = permit
        return line

    def put(self, line: WaitingLine | HeardLine) -> None:
        """Its wait is over."""
        if isinstance(line, WaitingLine):
            permit, line.permit = line.permit, None
            self._free.append(line)
            if permit is not None:
                permit.give_back()

    def lookout(self, server: Server) -> Lookout:
        if id(server) not in self._lookouts:
            self._lookouts[id(server)] = Lookout(server, tied=self._tied)
        return self._lookouts[id(server)]

    async def close(self) -> None:
        for line in self._free:
            await line.drop()
        for lookout in self._lookouts.values():
            await lookout.close()


def _meaning(error: Exception) -> Fault:
    return (
        Lost("the lookout's connection has been silent for too long") if type(error) is TimeoutError else meaning(error)
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
