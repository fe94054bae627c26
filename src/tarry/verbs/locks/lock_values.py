"""The identity and the state of a lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple


class LockId(NamedTuple):
    """A lock of a client: one of its namespace, or one that is shared with Java, by its name there."""

    name: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class LockState:
    """The state of a lock at the moment at which it was read."""

    name: str
    """The lock's name."""
    held: bool
    """Whether somebody holds the lock."""
    holder: str | None
    """The client that holds the lock, with its thread or task, as a text; ``None`` if the lock is free."""
    depth: int
    """How many times the holder has acquired the lock and not released it."""
    token: int | None
    """The newest fencing token: that of the holder, or of the last holder if the lock is free; ``None`` if it is unknown."""
    remaining: timedelta | None
    """The time until the lease ends; ``None`` if the lock is free, or if it has no lease but ends with its holder's session (ZooKeeper)."""
    waiting: int | None
    """How many clients wait for the lock (on a Cluster, only the clients that listen at one of its nodes); on ZooKeeper, how many threads and tasks."""
