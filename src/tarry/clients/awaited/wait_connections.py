"""The connections on which an awaited client waits: a few that block, and one tracking connection a node for all other waits.

    waiter ─▶ BlpopConnection ── BLPOP ──▶ node          at most 16 in a process (tarry.connections.connection_limit)
    waiter ─▶ TrackedWait ── TokenWait ──▶ inbox of the TrackingConnection ── one connection, one task ──▶ node

The clients of one event loop share the tracking connection to a node: the server notifies it once, and one waiter looks. Behind
Sentinels each client has its own, which is dropped with the client's other connections when the master changes.
Only the task of a TrackingConnection uses its connection. All others put a TokenWait into its inbox, and wake the task. The
protocol is in tarry.connections.tracking.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from contextlib import suppress
from typing import Any, Protocol

from tarry.clients.awaited.interfaces import SharedPartHost
from tarry.connections import connection_limit
from tarry.connections.awaited import BlpopConnection, Server, read_in_background, read_push_or_reply, send
from tarry.connections.background import supervise_task
from tarry.connections.faults import ConnectionLost, Fault, lost_by
from tarry.connections.pipelined import abort_connection
from tarry.connections.resp import Args
from tarry.connections.tracking import SILENT, TokenWait, TrackingLoop

logger = logging.getLogger("tarry")
WORK = "tarry-tracking"
ServerKey = tuple[str, float, bool]
"""A server's URL, with the user, how long its answers may take, and whether it belongs to a Cluster."""
_shared: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, weakref.WeakValueDictionary[ServerKey, TrackingConnection]
] = weakref.WeakKeyDictionary()
"""Those of each event loop; the clients that use them keep them alive."""


class TrackingConnection:
    """One connection to one server, and its task, as long as there are waits."""

    def __init__(self, server: Server, *, cluster: bool) -> None:
        self.server = server
        self.users: weakref.WeakSet[WaitConnections] = weakref.WeakSet()
        """Those of the clients that share it."""
        self._loop = TrackingLoop(_now(), server.answer_timeout_s, cluster=cluster)
        self._wakeup = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Any = None
        self._reading: asyncio.Task[Any] | None = None

    def submit(self, token_wait: TokenWait) -> None:
        """Passes a new wait to the task, or one that is not wanted any more."""
        self._loop.inbox.append(token_wait)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        self._wakeup.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            await supervise_task(WORK, self._work)
        finally:
            await self._disconnect(ConnectionLost("the client was closed"))

    async def _work(self) -> None:
        while not self._loop.is_over(_now()):
            try:
                await self._turn()
                if self._loop.is_over(_now()):
                    await self._disconnect(ConnectionLost("no wait is left"))
            except Exception as error:  # noqa: BLE001  # whatever it is, the task must not end: its waits would never
                await self._disconnect(ConnectionLost(SILENT) if type(error) is TimeoutError else lost_by(error, WORK))

    async def _turn(self) -> None:
        if self._loop.needs_connection:
            self._connection = await self.server.connect(push_messages=True)
            self._reading = read_in_background(read_push_or_reply(self._connection))
            await self._send(self._loop.start(_now()))
        commands, until = self._loop.turn(_now())
        await self._send(commands)
        await self._wait(until)
        while self._reading is not None and self._reading.done():
            reply = self._reading.result()
            self._reading = read_in_background(read_push_or_reply(self._connection))
            await self._send(self._loop.on_message(reply, _now()))
        self._loop.check_silence(_now())

    async def _wait(self, until: float) -> None:
        woken = asyncio.ensure_future(self._wakeup.wait())
        try:
            sources = {woken} if self._reading is None else {woken, self._reading}
            await asyncio.wait(sources, timeout=max(until - _now(), 0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self._wakeup.clear()

    async def _send(self, commands: list[Args]) -> None:
        if commands:
            async with asyncio.timeout(self.server.answer_timeout_s):
                await send(self._connection, commands)

    async def _disconnect(self, fault: Fault) -> None:
        connection, self._connection = self._connection, None
        reading, self._reading = self._reading, None
        self._loop.disconnected(fault)
        if connection is not None:
            with suppress(Exception):  # it is broken, perhaps in a way that the driver does not expect
                abort_connection(connection)
            logger.debug("A tracking connection was closed: %s", fault)
        if reading is not None:
            reading.cancel()
            await asyncio.wait({reading})


class TrackedWait:
    """A wait on a tracking connection, with the methods of a BlpopConnection."""

    def __init__(self, connections: WaitConnections) -> None:
        self.keys: tuple[bytes, ...] = ()
        self._connections = connections
        self._tracking: TrackingConnection
        self._token_wait: TokenWait
        self._ended: asyncio.Future[None]

    async def connect_to(self, server: Server) -> None:
        self._tracking = self._connections.tracking_connection(server)

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        self._ended = over = asyncio.get_running_loop().create_future()
        self._token_wait = TokenWait(keys, lambda: None if over.done() else over.set_result(None))
        self.keys = keys
        self._tracking.submit(self._token_wait)

    async def wait(self, seconds: float, interrupt: asyncio.Future[None]) -> tuple[bool, bytes | None]:
        """Waits until a token comes, the time is up, or ``interrupt`` is done. Returns whether the wait is over, and the
        key whose token came. Raises a ``Fault``."""
        await asyncio.wait({self._ended, interrupt}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        if not self._token_wait.ended:
            return False, None
        self.keys = ()
        if self._token_wait.fault is not None:
            raise self._token_wait.fault
        return True, self._token_wait.token

    async def end(self) -> bytes | None:
        """Ends a wait that was begun. Returns the key if a token came at that moment. Raises a ``Fault``."""
        self._token_wait.wanted = False
        self._tracking.submit(self._token_wait)
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        over, key = await self.wait(self._tracking.server.answer_timeout_s, never)
        if not over:
            await self.drop()
            raise ConnectionLost("the tracking connection did not answer")
        return key

    async def drop(self) -> None:
        if self.keys:
            self.keys = ()
            self._token_wait.wanted = False
            self._tracking.submit(self._token_wait)


class EndableWaiter(Protocol):
    """A waiter, as far as its connections know it."""

    def end_waits(self) -> None: ...


class WaitConnections:
    """All waiting connections of one client in one event loop."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._cluster = engine.config.address.kind == "cluster"
        self._limit = connection_limit.BLOCKED_LIMIT if self._cluster else connection_limit.UNLIMITED
        self.waiters: weakref.WeakSet[EndableWaiter] = weakref.WeakSet()
        self.ends_waits = False
        """Whether each wait for jobs ends at once, by one last pop."""
        self._idle: list[BlpopConnection] = []
        self._tracking: dict[ServerKey, TrackingConnection] = {}

    def end_waits(self, at_once: bool) -> None:
        """Each wait for jobs ends now, as at the end of its time, and so do the next ones; until it is called with ``False``."""
        self.ends_waits = at_once
        if at_once:
            for waiter in self.waiters:
                waiter.end_waits()

    def borrow(self, near: Server | None) -> BlpopConnection | TrackedWait:
        """Returns a connection that blocks, if possible one that is connected to ``near``; without a permit a tracked wait."""
        permit = self._limit.acquire()
        if permit is None:
            return TrackedWait(self)
        free = next(
            (connection for connection in self._idle if connection.is_connected_to(near)),
            self._idle[-1] if self._idle else None,
        )
        if free is not None:
            self._idle.remove(free)
        connection = free or BlpopConnection()
        connection.permit = permit
        return connection

    def give_back(self, connection: BlpopConnection | TrackedWait) -> None:
        """Its wait is over."""
        if isinstance(connection, BlpopConnection):
            permit, connection.permit = connection.permit, None
            self._idle.append(connection)
            if permit is not None:
                permit.release()

    def tracking_connection(self, server: Server) -> TrackingConnection:
        key = (server.url, server.answer_timeout_s, self._cluster)
        found = self._tracking.get(key)
        if found is None:
            found = self._tracking[key] = self._open_tracking(key, server)
            found.users.add(self)
        return found

    def _open_tracking(self, key: ServerKey, server: Server) -> TrackingConnection:
        if server.checks_master:
            return TrackingConnection(server, cluster=self._cluster)
        shared = _shared_connections()
        found = shared.get(key)
        if found is None:
            own = Server(server.url, server.answer_timeout_s)  # the client that came first may be closed first
            found = shared[key] = TrackingConnection(own, cluster=self._cluster)
        return found

    async def close(self) -> None:
        for connection in self._idle:
            await connection.drop()
        shared = _shared_connections()
        for key, tracking in self._tracking.items():
            tracking.users.discard(self)
            if not tracking.users:
                if shared.get(key) is tracking:
                    del shared[key]
                await tracking.close()
        self._tracking.clear()


def _shared_connections() -> weakref.WeakValueDictionary[ServerKey, TrackingConnection]:
    return _shared.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())


def _now() -> float:
    return asyncio.get_running_loop().time()
