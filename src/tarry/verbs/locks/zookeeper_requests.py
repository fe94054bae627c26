"""The requests to ZooKeeper, as values; the state of the session; the sequential nodes that are the queue of a lock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tarry.core.patience import RetryDelay
from tarry.verbs.locks.lock_table import Acquisition

SEQUENCE = re.compile(r".*-lock-(\d{10})")


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


@dataclass(slots=True)
class QueuedNode:
    """An acquisition's node, and what it knows of the one before it."""

    base: str
    path: str = ""
    session: int = 0
    token: int = 0
    ends: float = float("inf")
    looked: float = float("-inf")
    leaving: bool = False
    disconnected_since: float | None = None
    retry_delay: RetryDelay = field(default_factory=lambda: RetryDelay(0.05, 1.0))
    seen: tuple[str, int] = ("", 0)
    seen_since: float = 0.0


class NodeData(msgspec.Struct):
    """The data of a node, as JSON."""

    who: str = ""
    lease_ms: int | None = None


def node_prefix(acquisition: Acquisition) -> str:
    return f"_c_{acquisition.id.decode().replace(':', '-')}-lock-"


def sort_nodes(children: Iterable[str]) -> list[str]:
    """The queued nodes of all clients, sorted by their numbers."""
    numbered = [(int(found[1]), name) for name in children if (found := SEQUENCE.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


def parse_node(data: bytes) -> NodeData:
    try:
        return msgspec.json.decode(data, type=NodeData)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return NodeData()  # created by another library: it has no lease
