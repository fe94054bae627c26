"""The connection of subscribers, awaiting: one task reads it, and each listener has one that calls its handler."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from tarry.clients.channels import MOST_EVENTS, ChannelTable, Subscriber, SubscriptionLoop, log_dropped
from tarry.connections.awaited import Server, read_in_background, send
from tarry.connections.background import supervise_task
from tarry.connections.faults import REFUSED, ConnectionLost, lost_by
from tarry.connections.pipelined import abort_connection

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

logger = logging.getLogger("tarry")
WORK = "tarry-subscriptions"


class PubSubHost(Protocol):
    """The subscriptions of a client, as far as their connections know them."""

    longest_delay_s: float

    def end_if_unused(self, connection: PubSubConnection) -> bool: ...
    def forget(self, connection: PubSubConnection) -> None: ...
    async def reassign(self, connection: PubSubConnection) -> None: ...


class PubSubConnection:
    """One connection to one server, and its task."""

    def __init__(self, pubsub: PubSubHost, server: Server, channels: ChannelTable) -> None:
        self.server = server
        self.channels = channels
        self._pubsub = pubsub
        self._loop = SubscriptionLoop(channels, pubsub.longest_delay_s)
        self._connection: Any = None
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    def add(self, subscriber: Subscriber) -> None:
        self._loop.add(subscriber)
        self._changed.set()

    def remove(self, subscriber: Subscriber) -> None:
        self._loop.remove(subscriber)
        self._changed.set()

    def reconnect(self) -> None:
        self._loop.half_open = True
        self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        try:
            await supervise_task(WORK, self._keep_connected)
        finally:
            self._pubsub.forget(self)
            self._disconnect()

    async def _keep_connected(self) -> None:
        if self._connection is not None:  # something that it awaited was cancelled
            self._disconnect()
            self.channels.connection_lost(ConnectionLost("a task of the connection was cancelled"))
        while not self._pubsub.end_if_unused(self):
            try:
                if self._loop.was_lost:
                    self._loop.was_lost = False
                    await self._pubsub.reassign(self)
                else:
                    self._connection = await self.server.connect()
                    await self._serve()
                    self._disconnect()  # a subscriber may have been added meanwhile: then it connects again
            except Exception as error:  # noqa: BLE001  # whatever it is, the task must not end: all would be deaf
                self._disconnect()
                await asyncio.sleep(self._loop.lost(lost_by(error, WORK)))

    async def _serve(self) -> None:
        """Sends and receives on a new connection, until it breaks or there are no subscribers."""
        now = asyncio.get_running_loop().time
        self._loop.start(now())
        reading = read_in_background(self._read())
        try:
            while self.channels.subscribers:
                self._changed.clear()
                if commands := self._loop.commands():
                    await send(self._connection, commands)
                if not reading.done():
                    await self._wait(reading, self._loop.seconds_to_wait(now()))
                if reading.done():
                    for subscriber, channel, message in self._loop.on_reply(reading.result(), now()):
                        subscriber.receive(channel, message)
                    reading = read_in_background(self._read())
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _wait(self, reading: asyncio.Task[Any], seconds: float) -> None:
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({reading, changed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    async def _read(self) -> Any:
        """The next reply, or the server's error."""
        try:
            return await self._connection.read_response(timeout=math.inf, disconnect_on_error=False)
        except REFUSED as refused:
            return refused

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken, perhaps in a way that the driver does not expect
                abort_connection(connection)


class Callbacks:
    """Calls functions one after the other, in one task."""

    def __init__(self) -> None:
        self._queued: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue(MOST_EVENTS)
        self._dropped = 0
        self._ended = False
        self._idle: asyncio.Future[Callable[[], Awaitable[None]]] | None = None
        self._task = asyncio.ensure_future(supervise_task("tarry-events", self._run))

    @classmethod
    def for_listener(cls, engine: HandleEngine) -> Callbacks:  # noqa: ARG003  # as the blocking one
        return cls()

    def call_later(self, call: Callable[[], Awaitable[None]]) -> None:
        try:
            self._queued.put_nowait(call)
        except asyncio.QueueFull:
            self._dropped += 1
            log_dropped(self._dropped)

    async def end(self) -> None:
        """Ends it, after the call that runs now."""
        self._ended = True
        if self._task is not asyncio.current_task():
            if self._idle is not None:  # it has begun
                self._idle.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while not self._ended:
            self._idle = asyncio.ensure_future(self._queued.get())
            await asyncio.wait({self._idle})
            if self._idle.cancelled():
                return
            await self._idle.result()()
