"""The requests to ZooKeeper, as values, and the state of the session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class ConnectionInterrupted(Exception):  # it never reaches a user
    """No answer came: it is unknown whether the request was done."""


@dataclass(frozen=True, slots=True)
class NodeStat:
    czxid: int
    session: int
    version: int


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Creates an ephemeral sequential node; returns its path and its ``NodeStat``. Parents are created."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ListChildren:
    """Lists the names below a path; none if it does not exist."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadNode:
    """Reads a node's data and ``NodeStat``, or ``None``; ``on_change(deleted)`` is called once when it changes, or the watch
    ends."""

    path: str
    on_change: Callable[[bool], None] | None = None


@dataclass(frozen=True, slots=True)
class WriteNode:
    """Writes a node's data; returns whether it exists."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Deletes a node; returns whether it existed."""

    path: str


@dataclass(frozen=True, slots=True)
class ZooKeeperBatch:
    """Requests that are sent together; the answers are in their order. Raises ``ConnectionInterrupted``."""

    ops: tuple[Any, ...]


class SessionState:
    """The state of the session, as its listener reported it."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.id = 0
        self.connected = False
