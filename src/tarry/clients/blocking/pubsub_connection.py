"""The connection of subscribers, blocking: one thread reads it, and one of the client calls all handlers of listeners."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
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
from tarry.connections.blocking import Server
from tarry.connections.faults import CONNECTION_ERRORS, fault_of
from tarry.connections.resp import Args, pack
from tarry.core.patience import RetryDelay

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0


class PubSubHost(Protocol):
    """The subscriptions of a client, as far as their connections know them."""

    longest_delay_s: float

    def end_if_unused(self, connection: PubSubConnection) -> bool: ...
    def reassign(self, connection: PubSubConnection) -> None: ...


class PubSubConnection:
    """One connection to one server, and its thread."""

    def __init__(self, pubsub: PubSubHost, server: Server, channels: ChannelTable) -> None:
        self.server = server
        self.channels = channels
        self._pubsub = pubsub
        self._connection: Any = None
        self._closed = threading.Event()
        self._asked = False
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name="tarry-subscriptions", daemon=True)
        self._thread.start()

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._send(self.channels.add(subscriber))

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._send(self.channels.remove(subscriber))

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._send([(b"PING",)])  # the answer wakes the thread
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    def _send(self, commands: list[Args]) -> None:
        """Queues commands. A new connection subscribes to everything, whatever was queued."""
        if self._connection is not None and commands:
            with suppress(*CONNECTION_ERRORS):  # the thread finds out
                self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        back_off = RetryDelay(longest_s=self._pubsub.longest_delay_s)
        while not self._closed.is_set() and not (not self.channels.subscribers and self._pubsub.end_if_unused(self)):
            try:
                self._call()
                if (
                    self.channels.subscribers and not self._closed.is_set()
                ):  # it was dropped or closed while it connected
                    self._listen()
                    back_off.reset()  # a client that may connect, but not subscribe, tries less and less often
            except CONNECTION_ERRORS as fault:
                self._disconnect()
                if not self._closed.is_set():
                    with self._lock:
                        self.channels.connection_lost(fault_of(fault))
                    logger.info("The line that events come by broke, calling again: %s", fault)
                    self._closed.wait(back_off.next_delay())
                    self._pubsub.reassign(self)
        self._disconnect()

    def _call(self) -> None:
        if self._connection is None:
            connection = self.server.connect()
            with self._lock:
                self._connection, self._asked = connection, False
                self._send(self.channels.resubscribe())

    def _listen(self) -> None:
        if not self._connection.can_read(PING_AFTER_S):
            if self._asked:
                raise fault_of(TimeoutError("the line has been silent for too long"))
            self._asked = True
            self._send([(b"PING",)])
            return
        self._asked = False
        try:
            reply = self._connection.read_response(disconnect_on_error=False)
        except driver.ResponseError as refused:
            if not self.channels.sharded or "unknown command" not in str(refused).lower():
                raise
            self.channels.sharded = False  # a Cluster that is older than sharded channels
            with self._lock:
                self._send(self.channels.resubscribe())
            return
        if isinstance(reply, list) and reply[0] == UNSUBSCRIBED_BY_SERVER and reply[1] in self._wanted():
            raise fault_of(ConnectionError("the channel's slot has moved"))
        with self._lock:
            concerned = self.channels.dispatch(reply)
        for subscriber, channel, message in concerned:
            if subscriber.open:
                try:
                    subscriber.on_message(channel, message)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", channel)

    def _wanted(self) -> set[bytes]:
        with self._lock:
            return {channel for subscriber in self.channels.subscribers for channel in subscriber.channels}

    def _disconnect(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()


class Callbacks:
    """Calls functions one after the other, in one thread: neither a slow one nor one that asks the server stops anything else."""

    def __init__(self, engine: Any) -> None:  # noqa: ARG002  # as every part of a client
        self._queued: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_EVENTS)
        self._dropped = 0
        self._thread = threading.Thread(target=self._run, name="tarry-events", daemon=True)
        self._thread.start()

    @classmethod
    def for_listener(cls, engine: HandleEngine) -> Callbacks:
        return engine.shared_part(cls)

    def call_later(self, call: Callable[[], None]) -> None:
        try:
            self._queued.put_nowait(call)
        except queue.Full:
            self._dropped += 1
            log_dropped(self._dropped)

    def end(self) -> None:
        """Does nothing: other listeners use it, until the client is closed."""

    def close(self) -> None:
        self._queued.put(None)

    def _run(self) -> None:
        while (call := self._queued.get()) is not None:
            call()
            del call  # it holds a handle
