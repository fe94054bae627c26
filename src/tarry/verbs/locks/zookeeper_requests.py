"""What is asked of ZooKeeper, said without doing it: requests as values, and what is known of the connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class ConnectionInterrupted(Exception):  # it never reaches a user
    """The answer did not come: nobody knows whether it was done."""


@dataclass(frozen=True, slots=True)
class NodeStat:
    czxid: int
    session: int
    version: int


@dataclass(frozen=True, slots=True)
class CreateNode:
    """An ephemeral node in sequence; answers its path and its ``NodeStat``. Parents are made."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ListChildren:
    """The names below a path; none if it is not there."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node's data and ``NodeStat``, or ``None``; ``ring(deleted)`` is called once when it changes, or watching ends."""

    path: str
    on_change: Callable[[bool], None] | None = None


@dataclass(frozen=True, slots=True)
class WriteNode:
    """Writes a node's data; answers whether it is there."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Deletes a node; answers whether it was there."""

    path: str


@dataclass(frozen=True, slots=True)
class ZooKeeperBatch:
    """Requests that go together; answered in their order. Raises ``ConnectionInterrupted``."""

    ops: tuple[Any, ...]


class SessionState:
    """What is known of the connection, told by whoever has it."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.id = 0
        self.connected = False
