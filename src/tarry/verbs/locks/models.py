"""What is told about a lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class LockState:
    """Who has a lock, as seen a moment ago."""

    name: str
    held: bool
    holder: str | None
    """The client and its thread or task; ``None`` when the lock is free."""
    depth: int
    """How many times the holder has it."""
    token: int | None
    """The last fencing token, of this holder or of the one before; ``None`` if none is known."""
    remaining: timedelta | None
    """Until the lease ends; ``None`` when the lock is free, or ends with its holder's session."""
    waiting: int | None
    """How many wait: clients on Redis (without those of other nodes of a Cluster), waiters on ZooKeeper."""
