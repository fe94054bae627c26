"""The queue of a lock in ZooKeeper: sequential nodes, their data, and an acquisition's node among them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from tarry.core.patience import RetryDelay
from tarry.verbs.locks.lock_table import Acquisition

SEQUENCE = re.compile(r".*-lock-(\d{10})")


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
