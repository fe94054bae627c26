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
    """The state of a lock a moment ago."""

    name: str
    """The lock's name."""
    held: bool
    """Whether somebody has it."""
    holder: str | None
    """The client and its thread or task; ``None`` if the lock is free."""
    depth: int
    """How many times the holder has acquired it."""
    token: int | None
    """The last fencing token, of this holder or an earlier one; ``None`` if it is unknown."""
    remaining: timedelta | None
    """The time until the lease ends; ``None`` if the lock is free, or held until its holder's session ends."""
    waiting: int | None
    """How many wait for the lock: on Redis clients (on a Cluster those of one node), on ZooKeeper threads and tasks."""
