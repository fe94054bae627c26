"""The results of a map cache's verbs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

K = TypeVar("K")
V = TypeVar("V")

EventKind = Literal["created", "updated", "removed", "expired"]
Mode = Literal["LRU", "LFU"]
Backend = Literal["redisson", "redisson-native", "native"]
"""Redisson's ``getMapCache`` and ``getMapCacheNative``, the same in every namespace; and a map of the namespace, without Java."""
KINDS: tuple[EventKind, ...] = ("created", "updated", "removed", "expired")


@dataclass(frozen=True, slots=True)
class MapEvent(Generic[K, V]):
    """An event of an entry."""

    kind: EventKind
    """``created``, ``updated``, ``removed`` or ``expired``."""
    key: K
    """The key of the entry."""
    value: V
    """The value of the entry. If it was removed or has expired, its last value."""
    old: V | None = None
    """The value that an update replaced; ``None`` for other events."""


@dataclass(frozen=True, slots=True)
class MapStats:
    """A map cache at one moment, by the server's clock."""

    name: str
    """The map's name."""
    now: datetime
    """The moment of these numbers."""
    size: int
    """Living entries."""
    expired: int
    """Expired entries, which are invisible, and not removed yet."""
    next_expiry: datetime | None
    """When the next entry expires; ``None``: none does."""
    max_size: int | None
    """How many entries it may have; ``None``: any number."""
    mode: Mode
    """Which entries are removed when the map is full: the least recently used (``LRU``), or the least frequently used (``LFU``)."""
    listened: bool
    """Whether events are published: the map has had a listener."""
    evictors: int
    """How many processes evict entries or stand by as a deputy: 2 at most."""
