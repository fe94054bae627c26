"""The connection of subscribers, blocking: one thread reads it, and one of the client calls all handlers of listeners."""

from __future__ import annotations

import logging
import queue
import threading
import time
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
from tarry.connections.background import start_thread, supervise
from tarry.connections.blocking import Server, socket_of
from tarry.connections.faults import fault_of, lost_by
from tarry.connections.resp import Args, pack
from tarry.connections.wake_event import SocketWakeEvent
from tarry.core.patience import RetryDelay

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

logger = logging.getLogger("tarry")
WORK = "tarry-subscriptions"
CLOSING_S = 5.0


class PubSubHost(Protocol):
    """The subscriptions of a client, as far as their connections know them."""

    longest_delay_s: float

    def end_if_unused(self, connection: PubSubConnection) -> bool: ...
    def forget(self, connection: PubSubConnection) -> None: ...
    def reassign(self, connection: PubSubConnection) -> None: ...


class PubSubConnection:
    """One connection to one server, and its thread. Only the thread uses the connection: others queue commands, and wake it."""

    def __init__(self, pubsub: PubSubHost, server: Server, channels: ChannelTable) -> None:
        self.server = server
        self.channels = channels
        self._pubsub = pubsub
        self._connection: Any = None
        self._unsent: list[Args] = []
        self._lock = threading.RLock()
        """Guards the channels, and the commands that are queued."""
        self._closed = threading.Event()
        try:
            self._wakeup = SocketWakeEvent()
        except OSError as error:  # no free file descriptor
            raise fault_of(error) from error
        self._asked = self._was_lost = self._half_open = False
        self._silent_at = 0.0
        """When the silence is too long: then it is pinged, and after that lost."""
        self._back_off = RetryDelay(longest_s=pubsub.longest_delay_s)
        self._thread = threading.Thread(target=self._run, name=WORK, daemon=True)
        self._thread.start()

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._queue(self.channels.add(subscriber))

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._queue(self.channels.remove(subscriber))

    def reconnect(self) -> None:
        self._half_open = True
        self._wakeup.set()

    def close(self) -> None:
        self._closed.set()
        self._wakeup.set()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    def _queue(self, commands: list[Args]) -> None:
        """Queues commands. A new connection subscribes to everything, whatever was queued."""
        self._unsent += commands
        self._wakeup.set()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            supervise(WORK, self._keep_connected, self._closed.wait)
        finally:
            self._pubsub.forget(self)
            self._disconnect()
            self._wakeup.close()

    def _keep_connected(self) -> None:
        while not self._closed.is_set() and not (not self.channels.subscribers and self._pubsub.end_if_unused(self)):
            try:
                if self._was_lost:
                    self._was_lost = False
                    self._pubsub.reassign(self)
                elif self._connection is None:
                    self._connect()
                else:
                    self._listen()
            except BaseException as error:  # noqa: BLE001  # whatever it is, the thread must not end: all would be deaf
                self._was_lost = True
                self._disconnect()
                if not self._closed.is_set():
                    fault = lost_by(error, WORK)
                    logger.info("The line that events come by broke, calling again: %s", fault)
                    with self._lock:
                        self.channels.connection_lost(fault)
                    self._closed.wait(self._back_off.next_delay())

    def _connect(self) -> None:
        self._connection = self.server.connect()
        self._half_open = False
        with self._lock:
            self._unsent = self.channels.resubscribe()
        self._asked = False
        self._silent_at = time.monotonic() + PING_AFTER_S

    def _listen(self) -> None:
        if self._half_open:
            raise fault_of(ConnectionError("the server does not know this line any more"))
        self._send_queued()
        if not self._connection.can_read(0):
            self._wait_for_reply()
            return
        self._asked = False
        self._silent_at = time.monotonic() + PING_AFTER_S
        try:
            reply = self._connection.read_response(disconnect_on_error=False)
        except driver.ResponseError as refused:
            if not self.channels.sharded or "unknown command" not in str(refused).lower():
                raise
            with self._lock:
                self.channels.sharded = False  # a Cluster that is older than sharded channels
                self._unsent = self.channels.resubscribe()
            return
        if isinstance(reply, list) and reply[0] == UNSUBSCRIBED_BY_SERVER and reply[1] in self._wanted():
            raise fault_of(ConnectionError("the channel's slot has moved"))
        with self._lock:
            concerned = self.channels.dispatch(reply)
        self._back_off.reset()  # a client that may connect, but not subscribe, tries less and less often
        for subscriber, channel, message in concerned:
            if subscriber.open:
                try:
                    subscriber.on_message(channel, message)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", channel)

    def _wait_for_reply(self) -> None:
        """Until something can be read or sent. A server that is silent for too long is pinged, and then the connection is lost."""
        left = self._silent_at - time.monotonic()
        if left > 0:
            self._wakeup.wait(left, [socket_of(self._connection)])
            return
        if self._asked:
            raise fault_of(TimeoutError("the line has been silent for too long"))
        self._asked = True
        self._silent_at = time.monotonic() + PING_AFTER_S
        with self._lock:
            self._queue([(b"PING",)])

    def _send_queued(self) -> None:
        with self._lock:
            commands, self._unsent = self._unsent, []
        if commands:
            self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    def _wanted(self) -> set[bytes]:
        with self._lock:
            return {channel for subscriber in self.channels.subscribers for channel in subscriber.channels}

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken, perhaps in a way that the driver does not expect
                connection.disconnect()


class Callbacks:
    """Calls functions one after the other, in one thread: neither a slow one nor one that asks the server stops anything else."""

    def __init__(self, engine: Any) -> None:  # noqa: ARG002  # as every part of a client
        self._queued: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_EVENTS)
        self._dropped = 0
        start_thread("tarry-events", self._run)

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
