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
    """A change of an entry of a map cache."""

    kind: EventKind
    """The kind of change: ``created``, ``updated``, ``removed`` or ``expired``."""
    key: K
    """The key of the entry."""
    value: V
    """The value of the entry, or its last value if the entry was removed or has expired."""
    old: V | None = None
    """The value that an update replaced; ``None`` for other events."""


@dataclass(frozen=True, slots=True)
class MapStats:
    """The numbers of a map cache at one moment."""

    name: str
    """The map's name."""
    now: datetime
    """The moment of these numbers, by the server's clock."""
    size: int
    """The number of entries that have not expired."""
    expired: int
    """The number of expired entries that are not removed yet. Calls do not return them."""
    next_expiry: datetime | None
    """When the next entry expires; ``None`` if no entry expires."""
    max_size: int | None
    """How many entries the map may have; ``None`` if any number."""
    mode: Mode
    """Which entries are removed when the map is full: the least recently used (``LRU``), or the least frequently used (``LFU``)."""
    listened: bool
    """Whether changes are published as events. This begins with the first listener of the map."""
    evictors: int
    """How many processes remove expired entries, or are ready to take over: 2 at most."""
