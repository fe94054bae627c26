"""The connection of subscribers, blocking: one thread reads it, and one of the client calls all handlers of listeners."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from tarry.clients.channels import MOST_EVENTS, ChannelTable, Subscriber, SubscriptionLoop, log_dropped
from tarry.connections.background import start_thread, supervise
from tarry.connections.blocking import Server, socket_of
from tarry.connections.faults import REFUSED, fault_of, lost_by
from tarry.connections.resp import pack
from tarry.connections.wake_event import SocketWakeEvent

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
        self._loop = SubscriptionLoop(channels, pubsub.longest_delay_s)
        self._connection: Any = None
        self._lock = threading.RLock()
        """Guards the channels, and the loop."""
        self._closed = threading.Event()
        try:
            self._wakeup = SocketWakeEvent()
        except OSError as error:  # no free file descriptor
            raise fault_of(error) from error
        self._thread = threading.Thread(target=self._run, name=WORK, daemon=True)
        self._thread.start()

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._loop.add(subscriber)
        self._wakeup.set()

    def remove(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._loop.remove(subscriber)
        self._wakeup.set()

    def reconnect(self) -> None:
        self._loop.half_open = True
        self._wakeup.set()

    def close(self) -> None:
        self._closed.set()
        self._wakeup.set()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

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
                if self._loop.was_lost:
                    self._loop.was_lost = False
                    self._pubsub.reassign(self)
                elif self._connection is None:
                    self._connect()
                else:
                    self._listen()
            except BaseException as error:  # noqa: BLE001  # whatever it is, the thread must not end: all would be deaf
                self._disconnect()
                if not self._closed.is_set():
                    fault = lost_by(error, WORK)
                    with self._lock:
                        pause = self._loop.lost(fault)
                    self._closed.wait(pause)

    def _connect(self) -> None:
        self._connection = self.server.connect()
        with self._lock:
            self._loop.start(time.monotonic())

    def _listen(self) -> None:
        with self._lock:
            commands = self._loop.commands()
        if commands:
            self._connection.send_packed_command(list(map(pack, commands)), check_health=False)
        if not self._connection.can_read(0):
            with self._lock:
                seconds = self._loop.seconds_to_wait(time.monotonic())
            self._wakeup.wait(seconds, [socket_of(self._connection)])
            return
        try:
            reply = self._connection.read_response(disconnect_on_error=False)
        except REFUSED as refused:
            reply = refused
        with self._lock:
            concerned = self._loop.on_reply(reply, time.monotonic())
        for subscriber, channel, message in concerned:
            subscriber.receive(channel, message)

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
