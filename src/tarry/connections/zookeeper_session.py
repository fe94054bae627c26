"""A session with ZooKeeper: kazoo's client, with tarry's errors, and its events passed on.

kazoo runs callbacks on threads of its own; the callbacks here only pass the event on, and never block.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from tarry.errors import BadInput, MissingExtra, ServerUnfit
from tarry.verbs.locks.zookeeper_requests import (
    ConnectionInterrupted,
    CreateNode,
    DeleteNode,
    ListChildren,
    NodeStat,
    ReadNode,
    WriteNode,
)

ANSWER_TIMEOUT_S = 5.0

try:
    from kazoo import exceptions as kazoo
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import KazooException
    from kazoo.protocol.states import EventType
except ImportError as missing:
    raise MissingExtra("Locks on ZooKeeper need kazoo: pip install 'tarry[zookeeper]'.") from missing

logging.getLogger("kazoo").addHandler(logging.NullHandler())
_CONNECTION_ERRORS = (
    kazoo.ConnectionLoss,
    kazoo.ConnectionClosedError,
    kazoo.SessionExpiredError,
    kazoo.OperationTimeoutError,
    kazoo.SessionMovedError,
    kazoo.CancelledError,
)

TRIES_IN_A_SESSION = 3


class SessionListener(Protocol):
    """Is notified of the session's state, on kazoo's thread."""

    def suspended(self) -> None: ...

    def connected(self, session: int) -> None: ...

    def expired(self) -> None: ...


class Hosts(list[tuple[str, int]]):
    """Hosts for kazoo, which waits for the answer to a new connection as long as the session's timeout, divided by their number.

    A server that is just starting may accept a connection and never answer. So that other tries fit into the session, the number is
    given as several times what it is.
    """

    def __len__(self) -> int:
        return TRIES_IN_A_SESSION * super().__len__()


class ZooKeeperSession:
    """One session. It connects at ``connect``."""

    def __init__(self, hosts: str, session_timeout_s: float, notify: Callable[[Callable[[], None]], None]) -> None:
        """``notify`` runs a callback: at once, or in the listener's own thread."""
        self._notify = notify
        self._lock = threading.Lock()
        self._connecting = False
        self._closed = False
        self.reached = False
        """Whether there has ever been a connection."""
        self.listener: SessionListener | None = None
        try:
            self._client: Any = KazooClient(
                hosts,
                timeout=session_timeout_s,
                connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
                command_retry={"max_tries": 0},
            )
        except (ValueError, TypeError, AttributeError) as fault:
            raise BadInput(f"hosts: {hosts!r} cannot be parsed ({fault}); write host:port,host:port.") from None
        self._client.hosts = Hosts(self._client.hosts)
        self._client.add_listener(self._state_changed)

    def _state_changed(self, state: str) -> None:
        listener = self.listener
        if listener is None or self._closed:
            return
        if state == KazooState.CONNECTED:
            self.reached = True
            session = int(self._client.client_id[0])
            self._notify(lambda: listener.connected(session))
        elif state == KazooState.SUSPENDED:
            self._notify(listener.suspended)
        else:
            self._notify(listener.expired)

    def connect(self) -> threading.Event:
        """Starts to connect, once. Returns an event that is set while there is a connection."""
        with self._lock:
            if not self._connecting:
                self._connecting = True
                self._client.start_async()
        event: threading.Event = self._client._live  # noqa: SLF001  # kazoo has no public name for it
        return event

    @property
    def alive(self) -> bool:
        return bool(self._client.connected)

    def start_request(self, op: Any) -> Any:
        """Sends one request and returns kazoo's async result. Raises ``ConnectionInterrupted`` without a connection: kazoo would queue
        the request, and send it when the caller has given up."""
        if not self.alive:
            raise ConnectionInterrupted("there is no connection")
        client = self._client
        if isinstance(op, CreateNode):
            return client.create_async(
                op.path, op.data, ephemeral=True, sequence=True, makepath=True, include_data=True
            )
        if isinstance(op, ListChildren):
            return client.get_children_async(op.path)
        if isinstance(op, ReadNode):
            return client.get_async(op.path, watch=self._watcher(op.on_change))
        if isinstance(op, WriteNode):
            return client.set_async(op.path, op.data)
        assert isinstance(op, DeleteNode)
        return client.delete_async(op.path)

    def _watcher(self, wake: Callable[[bool], None] | None) -> Callable[[Any], None] | None:
        if wake is None:
            return None
        return lambda event: self._notify(lambda: wake(event.type == EventType.DELETED))

    def close(self) -> None:
        """Ends the session; ZooKeeper deletes its ephemeral nodes."""
        self._closed = True
        if self._connecting:
            with suppress(Exception):  # closed either way
                self._client.stop()
                self._client.close()


def result_of(op: Any, async_result: Any) -> Any:
    """The result of a finished request. Raises ``ConnectionInterrupted``, or ``ServerUnfit`` with ZooKeeper's own error."""
    try:
        reply = async_result.get_nowait()
    except kazoo.NoNodeError:
        return [] if isinstance(op, ListChildren) else None if isinstance(op, ReadNode) else False
    except _CONNECTION_ERRORS as fault:
        raise ConnectionInterrupted(type(fault).__name__) from fault
    except KazooException as fault:
        raise ServerUnfit(f"ZooKeeper refused {type(op).__name__.lower()}: {type(fault).__name__} {fault}.") from fault
    if isinstance(op, CreateNode):
        return reply[0], _stat(reply[1])
    if isinstance(op, ReadNode):
        return reply[0], _stat(reply[1])
    return reply if isinstance(op, ListChildren) else True


def _stat(stat: Any) -> NodeStat:
    return NodeStat(stat.czxid, stat.ephemeralOwner, stat.version)
