# Made from src/tarry/clients/awaited/pubsub.py by tools/blocking.py: change that file, then `make blocking`.
"""The subscriptions of a blocking client: one connection for all subscribers.

    subscribe ─▶ connection ◀── server          one connection; on a Cluster one for each node that has a subscribed channel
                     │ message
                     ▼
                 subscriber.on_message(channel, message)          by the connection's reader: it must be quick, and send nothing

The connection opens with the first subscriber. It closes with the last one, or with the client. When it breaks, it opens again.
"""

from __future__ import annotations

from contextlib import suppress

from tarry.clients.blocking.concurrency import Event, ReentrantMutex
from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.clients.blocking.pubsub_connection import PubSubConnection
from tarry.clients.channels import ChannelTable, OnLost, OnMessage, Subscriber
from tarry.clients.replies import unavailable_error
from tarry.connections.faults import Fault
from tarry.core.patience import LONGEST_DELAY_S
from tarry.errors import TarryError, Unavailable


class PubSub:
    """All subscribers of one client. Thread-safe."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._runner = engine.runner
        self._sharded = engine.config.address.kind == "cluster"
        self._patience_s = engine.config.patience.bound
        self._mutex = ReentrantMutex()
        self._connections: dict[int, PubSubConnection] = {}
        self._closed = False
        self.longest_delay_s = LONGEST_DELAY_S
        """The longest pause before a connection that broke is made again."""

    def subscribe(
        self,
        key: bytes,
        channels: tuple[bytes, ...],
        on_message: OnMessage,
        *,
        wait: bool = True,
        on_lost: OnLost | None = None,
    ) -> Subscriber:
        """Once this has returned, no message of the channels is missed, unless the connection breaks.

        Raises ``Unavailable`` when the server does not confirm it in time. Without ``wait`` the subscription begins a little later.
        """
        confirmed = Event()
        subscriber = Subscriber(key, channels, on_message, confirmed.set, on_lost)
        try:
            self._assign(subscriber)
        except Fault as fault:
            raise unavailable_error(fault, "its URL", 0.0) from fault
        try:
            if wait and not confirmed.wait(max(self._patience_s, 1.0)):
                raise Unavailable(
                    f"The server did not confirm within {self._patience_s:g} s that it will tell what happens."
                )
        except BaseException:
            self.unsubscribe(subscriber)
            raise
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """The subscriber receives no more messages."""
        with self._mutex:
            subscriber.open = False
            for connection in list(self._connections.values()):
                connection.remove(subscriber)

    def reconnect(self, subscriber: Subscriber) -> None:
        """Its connection is half open, or on a server that is not the channels' any more: a new one is made."""
        with self._mutex:
            for connection in self._connections.values():
                if subscriber in connection.channels.subscribers:
                    connection.reconnect()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()

    def _assign(self, subscriber: Subscriber) -> None:
        self._runner.ensure_open()
        server = self._runner.server_of(subscriber.key)
        with self._mutex:
            if self._closed:
                raise Unavailable("The client was closed.")
            if not subscriber.open:
                return
            connection = self._connections.get(id(server))
            if connection is None:
                connection = self._connections[id(server)] = PubSubConnection(
                    self, server, ChannelTable(sharded=self._sharded)
                )
            connection.add(subscriber)

    # ── for its connections ──────────────────────────────────────────────────────────────────────────────────────────────

    def end_if_unused(self, connection: PubSubConnection) -> bool:
        """Ends a connection that has no subscribers, unless one was added at the last moment."""
        with self._mutex:
            if connection.channels.subscribers:
                return False
            self.forget(connection)
            return True

    def forget(self, connection: PubSubConnection) -> None:
        """A connection ends, for whatever reason: the next subscriber opens a new one."""
        with self._mutex:
            if self._connections.get(id(connection.server)) is connection:
                del self._connections[id(connection.server)]

    def reassign(self, connection: PubSubConnection) -> None:
        """After a connection was lost: moves the subscribers whose channels are on another server now."""
        with suppress(TarryError, Fault):
            self._runner.refresh()
        with self._mutex:
            for subscriber in list(connection.channels.subscribers):
                with suppress(TarryError, Fault):
                    if self._runner.server_of(subscriber.key) is not connection.server:
                        self._assign(subscriber)  # first: if it fails, the subscriber stays, and is moved later
                        connection.remove(subscriber)
