"""The connection of subscribers, awaiting: one task reads it, and each listener has one that calls its handler."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import redis.exceptions as driver

from tarry.clients.channels import (
    MOST_EVENTS,
    PING_AFTER_S,
    UNSUBSCRIBED_BY_SERVER,
    ChannelTable,
    Subscriber,
    log_dropped,
)
from tarry.connections.awaited import Server, read_in_background, send
from tarry.connections.background import supervise_task
from tarry.connections.faults import ConnectionLost, fault_of, lost_by
from tarry.connections.pipelined import abort_connection
from tarry.connections.resp import Args
from tarry.core.patience import RetryDelay

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
        self._connection: Any = None
        self._unsent: list[Args] = []
        self._changed = asyncio.Event()
        self._was_lost = self._half_open = False
        self._back_off = RetryDelay(longest_s=pubsub.longest_delay_s)
        self._task = asyncio.ensure_future(self._run())

    def add(self, subscriber: Subscriber) -> None:
        self._send(self.channels.add(subscriber))

    def remove(self, subscriber: Subscriber) -> None:
        self._send(self.channels.remove(subscriber))

    def reconnect(self) -> None:
        self._half_open = True
        self._changed.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    def _send(self, commands: list[Args]) -> None:
        """Queues commands. A new connection subscribes to everything, whatever was queued."""
        if commands:
            self._unsent += commands
            self._changed.set()

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
                if self._was_lost:
                    self._was_lost = False
                    await self._pubsub.reassign(self)
                else:
                    self._connection = await self.server.connect()
                    await self._serve()
                    self._disconnect()  # a subscriber may have been added meanwhile: then it connects again
            except Exception as error:  # noqa: BLE001  # whatever it is, the task must not end: all would be deaf
                self._was_lost = True
                self._disconnect()
                fault = lost_by(error, WORK)
                logger.info("The line that events come by broke, calling again: %s", fault)
                self.channels.connection_lost(fault)
                await asyncio.sleep(self._back_off.next_delay())

    async def _serve(self) -> None:
        """Sends and receives on a new connection, until it breaks or there are no subscribers."""
        self._unsent, self._half_open = self.channels.resubscribe(), False
        reading = read_in_background(self._read())
        asked = False
        try:
            while self.channels.subscribers:
                self._changed.clear()
                if self._half_open:
                    raise fault_of(ConnectionError("the server does not know this line any more"))
                commands, self._unsent = self._unsent, []
                if commands:
                    await send(self._connection, commands)
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    done, _ = await asyncio.wait(
                        {reading, changed}, timeout=PING_AFTER_S, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    changed.cancel()
                if reading in done:
                    asked = False
                    try:
                        self._on_reply(reading.result())
                        self._back_off.reset()  # a client that may connect, but not subscribe, tries less and less often
                    except driver.ResponseError as refused:
                        if not self.channels.sharded or "unknown command" not in str(refused).lower():
                            raise
                        self.channels.sharded = False  # a Cluster that is older than sharded channels
                        self._unsent = self.channels.resubscribe()
                    reading = read_in_background(self._read())
                elif not done:
                    if asked:
                        raise fault_of(TimeoutError("the line has been silent for too long"))
                    asked = True
                    self._unsent.append((b"PING",))
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self) -> Any:
        return await self._connection.read_response(timeout=math.inf, disconnect_on_error=False)

    def _on_reply(self, reply: Any) -> None:
        if isinstance(reply, list) and reply[0] == UNSUBSCRIBED_BY_SERVER and self._wanted(reply[1]):
            raise fault_of(ConnectionError("the channel's slot has moved"))
        for subscriber, channel, message in self.channels.dispatch(reply):
            if subscriber.open:
                try:
                    subscriber.on_message(channel, message)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", channel)

    def _wanted(self, channel: bytes) -> bool:
        return any(channel in subscriber.channels for subscriber in self.channels.subscribers)

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
