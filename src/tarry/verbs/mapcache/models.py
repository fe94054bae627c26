"""What the verbs of a map cache answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

K = TypeVar("K")
V = TypeVar("V")

EventKind = Literal["created", "updated", "removed", "expired"]
Mode = Literal["LRU", "LFU"]
Backend = Literal["redisson", "native"]
KINDS: tuple[EventKind, ...] = ("created", "updated", "removed", "expired")


@dataclass(frozen=True, slots=True)
class MapEvent(Generic[K, V]):
    """What happened to an entry of a map cache. ``old`` is what an update replaced, else ``None``."""

    kind: EventKind
    key: K
    value: V
    old: V | None = None


@dataclass(frozen=True, slots=True)
class MapStats:
    """A map cache at one moment, by the server's clock."""

    name: str
    now: datetime
    size: int
    """Entries that live."""
    expired: int
    """Entries that have expired and wait for the evictor, which nobody sees."""
    next_expiry: datetime | None
    """When the next entry expires; ``None``: none does."""
    max_size: int | None
    """``None``: unlimited."""
    mode: Mode
    """What goes when it is full: what was used the longest ago (``LRU``), or the least (``LFU``)."""
    listened: bool
    """Whether events are told: somebody has listened since the map was made."""
    keepers: int
    """Processes that keep the map: the evictor and its deputy."""
