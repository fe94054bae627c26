"""The lines on which an awaiting client waits: some that block, and beyond those one lookout a node, for all others.

    waiter ─▶ line ── BLPOP ──▶ node          at most 16 in a process (tarry.connections.connection_limit)
    waiter ─▶ heard line ──wish──▶ lookout ── one connection, one task ──▶ node          (tarry.connections.tracking)

A lookout's connection is its task's: others leave their wishes in its box, and wake it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from tarry.connections import connection_limit
from tarry.connections.awaited import BlpopConnection, Server, abort_connection, read_push_or_reply, send
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, Fault, fault_of
from tarry.connections.tracking import LINGER_S, RECHECK_S, Args, TokenWait, TrackingState

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

logger = logging.getLogger("tarry")


class Lookout:
    """One connection to one server, and its task, as long as anybody wishes."""

    look_around_s, linger_s = RECHECK_S, LINGER_S

    def __init__(self, server: Server, *, tied: bool) -> None:
        self.server = server
        self._orders = TrackingState(cluster=tied)
        self._box: deque[TokenWait] = deque()
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None
        self._busy_at = self._looked_at = _now()
        self._owed_since: float | None = None

    def post(self, token_wait: TokenWait) -> None:
        """A new wish, or one that is not wanted any more."""
        self._box.append(token_wait)
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
                        await self._hang_up(ConnectionLost("nobody wishes for anything"))
                except (TimeoutError, *CONNECTION_ERRORS) as error:
                    await self._hang_up(_meaning(error))
        finally:
            await self._hang_up(ConnectionLost("the client was closed"))

    def _is_over(self) -> bool:
        """Nobody has wished for anything for a while."""
        if not self._orders.idle or self._box:
            self._busy_at = _now()
        return _now() >= self._busy_at + self.linger_s

    async def _read_box(self) -> None:
        if not self._box:
            return
        if self._connection is None:
            self._connection = await self.server.connect(push_messages=True)
            self._reading = asyncio.ensure_future(read_push_or_reply(self._connection))
            self._looked_at = _now()
            await self._say(self._orders.start())
        said: list[Args] = []
        while self._box:
            said += self._take(self._box.popleft())
        await self._say(said)

    def _take(self, token_wait: TokenWait) -> list[Args]:
        if token_wait.wanted:
            return self._orders.add(token_wait)
        self._orders.remove(token_wait)
        return []

    async def _rest(self) -> None:
        """Until there is something to do; looks around when it is time."""
        if self._orders.idle:
            until = self._busy_at + self.linger_s
        else:
            if _now() >= self._looked_at + self.look_around_s:
                self._looked_at = _now()
                await self._say(self._orders.recheck())
            until = self._looked_at + self.look_around_s
        if self._owed_since is not None:
            until = min(until, self._owed_since + self.server.answer_timeout_s)
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
            self._reading = asyncio.ensure_future(read_push_or_reply(self._connection))
            self._owed_since = _now()
            await self._say(self._orders.on_message(reply))
        if not self._orders.awaits_reply:
            self._owed_since = None
        elif self._owed_since is not None and _now() >= self._owed_since + self.server.answer_timeout_s:
            raise ConnectionLost("the lookout's connection has been silent for too long")

    async def _say(self, commands: list[Args]) -> None:
        if commands:
            self._owed_since = self._owed_since or _now()
            async with asyncio.timeout(self.server.answer_timeout_s):
                await send(self._connection, commands)

    async def _hang_up(self, fault: Fault) -> None:
        connection, self._connection, self._owed_since = self._connection, None, None
        reading, self._reading = self._reading, None
        while self._box:
            self._take(self._box.popleft())
        self._orders.connection_lost(fault)
        try:
            if reading is not None:
                reading.cancel()
                await asyncio.wait({reading})
                if not reading.cancelled():
                    reading.exception()  # seen: the line is gone anyway
        finally:
            if connection is not None:
                await abort_connection(connection)
                logger.debug("A lookout hung up: %s", fault)


class HeardLine:
    """A place at a lookout, in the shape of a line that blocks."""

    def __init__(self, lines: Lines) -> None:
        self.keys: tuple[bytes, ...] = ()
        self._lines = lines
        self._lookout: Lookout
        self._wish: TokenWait
        self._over: asyncio.Future[None]

    async def go_to(self, server: Server) -> None:
        self._lookout = self._lines.lookout(server)

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        self._over = over = asyncio.get_running_loop().create_future()
        self._wish = TokenWait(keys, lambda: None if over.done() else over.set_result(None))
        self.keys = keys
        self._lookout.post(self._wish)

    async def wait(self, seconds: float, poke: asyncio.Future[None]) -> tuple[bool, bytes | None]:
        """Until a token comes, the time is up, or somebody pokes. Answers whether the wait is over, and the key whose token
        came. Raises a ``Fault``."""
        await asyncio.wait({self._over, poke}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        if not self._wish.ended:
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
        over, key = await self.wait(self._lookout.server.answer_timeout_s, never)
        if not over:
            await self.drop()
            raise ConnectionLost("the lookout did not answer")
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
        self._budget = connection_limit.BLOCKED_LIMIT if self._tied else connection_limit.UNLIMITED
        self._free: list[BlpopConnection] = []
        self._lookouts: dict[int, Lookout] = {}

    def take(self, near: Server | None) -> BlpopConnection | HeardLine:
        """A line that blocks, one that is connected to this server if there is one; or one that is heard."""
        permit = self._budget.acquire()
        if permit is None:
            return HeardLine(self)
        free = next((line for line in self._free if line.is_connected_to(near)), self._free[-1] if self._free else None)
        if free is not None:
            self._free.remove(free)
        line = free or BlpopConnection()
        line.permit = permit
        return line

    def put(self, line: BlpopConnection | HeardLine) -> None:
        """Its wait is over."""
        if isinstance(line, BlpopConnection):
            permit, line.permit = line.permit, None
            self._free.append(line)
            if permit is not None:
                permit.release()

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
        ConnectionLost("the lookout's connection has been silent for too long")
        if type(error) is TimeoutError
        else fault_of(error)
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
