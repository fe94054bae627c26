"""The connections on which a blocking client waits: a few that block, and one tracking connection a node for all other waits.

    waiter ─▶ BlpopConnection ── BLPOP ──▶ node          at most 16 in a process (tarry.connections.connection_limit)
    waiter ─▶ TrackedWait ── TokenWait ──▶ inbox of the TrackingConnection ── one connection, one thread ──▶ node

Only the thread of a TrackingConnection uses its connection. All others put a TokenWait into its inbox, and wake the thread. The
protocol is in tarry.connections.tracking.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.connections import connection_limit
from tarry.connections.background import start_thread
from tarry.connections.blocking import Server, read_push_or_reply, socket_of
from tarry.connections.blocking_blpop import BlpopConnection
from tarry.connections.faults import ConnectionLost, Fault, fault_of, lost_by
from tarry.connections.resp import Args, pack
from tarry.connections.tracking import TokenWait, TrackingLoop
from tarry.connections.wake_event import SocketWakeEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from tarry.connections.wake_event import WakeEvent

logger = logging.getLogger("tarry")
WORK = "tarry-tracking"
CLOSING_S = 5.0


class TrackingConnection:
    """One connection to one server, and its thread, as long as there are waits."""

    def __init__(self, server: Server, *, cluster: bool) -> None:
        self.server = server
        self._loop = TrackingLoop(time.monotonic(), server.answer_timeout_s, cluster=cluster)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wakeup = SocketWakeEvent()
        self._connection: Any = None
        self._closed = False

    def submit(self, token_wait: TokenWait) -> None:
        """Passes a new wait to the thread, or one that is not wanted any more. From any thread."""
        self._loop.inbox.append(token_wait)
        with self._lock:
            if self._closed:
                token_wait.fault, token_wait.ended = ConnectionLost("the client was closed"), True
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = start_thread(WORK, self._run)
        self._wakeup.set()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            thread = self._thread
        self._wakeup.set()
        if thread is not None:
            thread.join(CLOSING_S)
        self._wakeup.close()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._is_over():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001  # whatever it is, the thread must not end: its waits would never
                self._disconnect(lost_by(error, WORK))

    def _is_over(self) -> bool:
        """There has been no wait for a while, or there will be no more."""
        with self._lock:
            if not self._loop.is_over(time.monotonic()) and not self._closed:
                return False
            self._thread = None
            self._disconnect(ConnectionLost("the client was closed"))
            return True

    def _turn(self) -> None:
        if self._loop.needs_connection:
            self._connection = self.server.connect(push_messages=True)
            self._send(self._loop.start(time.monotonic()))
        commands, until = self._loop.turn(time.monotonic())
        self._send(commands)
        self._wait(until - time.monotonic())
        while self._connection is not None and self._connection.can_read(0):
            reply = read_push_or_reply(self._connection)
            self._send(self._loop.on_message(reply, time.monotonic()))
        self._loop.check_silence(time.monotonic())

    def _wait(self, seconds: float) -> None:
        if self._connection is None:
            self._wakeup.wait(seconds)
        elif not self._connection.can_read(0):
            self._wakeup.wait(seconds, [socket_of(self._connection)])

    def _send(self, commands: list[Args]) -> None:
        if commands:
            self._connection.send_packed_command(list(map(pack, commands)), check_health=False)

    def _disconnect(self, fault: Fault) -> None:
        connection, self._connection = self._connection, None
        self._loop.disconnected(fault)
        if connection is not None:
            with suppress(Exception):  # it is broken, perhaps in a way that the driver does not expect
                connection.disconnect()
            logger.debug("A tracking connection was closed: %s", fault)


class TrackedWait:
    """A wait on a tracking connection, with the methods of a BlpopConnection. ``wake_event`` wakes the thread that waits."""

    def __init__(
        self, connections: WaitConnections, wake_event: Callable[[], WakeEvent | SocketWakeEvent | None]
    ) -> None:
        self.keys: tuple[bytes, ...] = ()
        self._connections = connections
        self._wake_event = wake_event
        self._tracking: TrackingConnection
        self._token_wait: TokenWait

    def connect_to(self, server: Server) -> None:
        """Sets the server of the next wait. Raises a ``Fault``."""
        try:
            self._tracking = self._connections.tracking_connection(server)
        except OSError as error:  # no free file descriptor for a wake event
            raise fault_of(error) from error

    def begin(self, keys: tuple[bytes, ...]) -> None:
        self._token_wait = TokenWait(keys, self._wake)
        self.keys = keys
        self._tracking.submit(self._token_wait)

    def wait(self, seconds: float) -> tuple[bool, bytes | None]:
        """Returns whether the wait is over, and the key whose token came; or returns when it is woken. Raises a ``Fault``."""
        if not self._token_wait.ended and (wake_event := self._wake_event()) is not None:
            wake_event.wait(seconds)
        if not self._token_wait.ended:
            return False, None
        self.keys = ()
        if self._token_wait.fault is not None:
            raise self._token_wait.fault
        return True, self._token_wait.token

    def end(self) -> bytes | None:
        """Ends a wait that was begun. Returns the key if a token came at that moment. Raises a ``Fault``."""
        self._token_wait.wanted = False
        self._tracking.submit(self._token_wait)
        by = time.monotonic() + self._tracking.server.answer_timeout_s
        while (left := by - time.monotonic()) > 0:
            over, key = self.wait(left)
            if over:
                return key
        self.drop()
        raise ConnectionLost("the tracking connection did not answer")

    def drop(self) -> None:
        if self.keys:
            self.keys = ()
            self._token_wait.wanted = False
            self._tracking.submit(self._token_wait)

    def _wake(self) -> None:
        if (wake_event := self._wake_event()) is not None:
            wake_event.set()


class WaitConnections:
    """All waiting connections of one client. Thread-safe."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._cluster = engine.config.address.kind == "cluster"
        self._limit = connection_limit.BLOCKED_LIMIT if self._cluster else connection_limit.UNLIMITED
        self._lock = threading.Lock()
        self._idle: list[BlpopConnection] = []
        self._tracking: dict[int, TrackingConnection] = {}

    def borrow(
        self, near: Server | None, wake_event: Callable[[], WakeEvent | SocketWakeEvent | None]
    ) -> BlpopConnection | TrackedWait:
        """Returns a connection that blocks, if possible one that is connected to ``near``; without a permit a tracked wait."""
        permit = self._limit.acquire()
        if permit is None:
            return TrackedWait(self, wake_event)
        with self._lock:
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
            with self._lock:
                self._idle.append(connection)
            if permit is not None:
                permit.release()

    def tracking_connection(self, server: Server) -> TrackingConnection:
        with self._lock:
            if id(server) not in self._tracking:
                self._tracking[id(server)] = TrackingConnection(server, cluster=self._cluster)
            return self._tracking[id(server)]

    def close(self) -> None:
        for connection in self._idle:
            connection.drop()
        for tracking in self._tracking.values():
            tracking.close()
