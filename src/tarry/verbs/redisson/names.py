"""How Redisson names the keys and channels that belong to an object.

    name      prefix_name("p", name)      suffix_name(name, "s")
    a         p:{a}                       {a}:s
    a{b}      p:a{b}                      a{b}:s
    a{b       p:a{b                       a{b:s          ← no hash tag: not fit for a Cluster

Only ``{`` is looked for, as in Java: whether it opens a valid hash tag is not. A name mapper rewrites the name first, and
everything is derived from what it answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

NameMapper: TypeAlias = Callable[[str], str]
"""The ``NameMapper.map`` of the Java application: from the name in code to the name on the server."""


def prefix_name(prefix: str, name: str) -> str:
    """``prefix:name`` if the name has a ``{``, else ``prefix:{name}``."""
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffix_name(name: str, suffix: str) -> str:
    """``name:suffix`` if the name has a ``{``, else ``{name}:suffix``."""
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def fits_cluster(name: str) -> bool:
    """Whether all derived names are in the name's slot; if not, a Cluster refuses with CROSSSLOT."""
    tag = _hashed(name)
    return tag == _hashed(prefix_name("p", name)) == _hashed(suffix_name(name, "s"))


def _hashed(key: str) -> str:
    """The part of a key that decides its slot: its hash tag if it has one, else all of it."""
    start = key.find("{")
    end = key.find("}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


@dataclass(frozen=True, slots=True)
class DelayedQueueNames:
    """The keys of an ``RDelayedQueue``, and its channel, which is never a sharded one."""

    ready: str  #: LIST of payloads: the destination, the name itself
    order: str  #: LIST of packed elements in the order of offers
    due: str  #: ZSET packed element → due time in ms
    channel: str  #: due time of a new head, in ms, as decimal text


@dataclass(frozen=True, slots=True)
class MapCacheNames:
    """The keys of an ``RMapCache`` and its channels (sharded in a Cluster of version 7 or newer)."""

    entries: str  #: HASH key → packed value: the name itself
    timeouts: str  #: ZSET key → expiry in ms
    idles: str  #: ZSET key → last touch plus idle time, in ms
    accesses: str  #: ZSET key → last access in ms (LRU) or number of hits (LFU)
    options: str  #: HASH max-size, mode, has-listeners
    latch: str  #: the one who evicts
    leases: str  #: with an encoded key appended: the one who loads
    created: str
    updated: str
    removed: str
    expired: str


@dataclass(frozen=True, slots=True)
class LockNames:
    """The keys of an ``RLock``, and its channel (sharded in a Cluster of version 7 or newer, since 3.22.0)."""

    lock: str  #: HASH holder → how many times it holds the lock: the name itself
    token: str  #: the last fencing token of an ``RFencedLock``
    channel: str  #: "0" when it is free


def delayed_queue(name: str, mapper: NameMapper | None = None) -> DelayedQueueNames:
    """The names of the delayed queue whose destination is ``name``."""
    name = mapper(name) if mapper else name
    return DelayedQueueNames(
        ready=name,
        order=prefix_name("redisson_delay_queue", name),
        due=prefix_name("redisson_delay_queue_timeout", name),
        channel=prefix_name("redisson_delay_queue_channel", name),
    )


def map_cache(name: str, mapper: NameMapper | None = None) -> MapCacheNames:
    """The names of the map cache ``name``."""
    name = mapper(name) if mapper else name
    return MapCacheNames(
        entries=name,
        timeouts=prefix_name("redisson__timeout__set", name),
        idles=prefix_name("redisson__idle__set", name),
        accesses=prefix_name("redisson__map_cache__last_access__set", name),
        options=suffix_name(name, "redisson_options"),
        latch=prefix_name("redisson__execute_task_once_latch", name),
        leases=prefix_name("redisson__map__lease", name) + ":",
        created=prefix_name("redisson_map_cache_created", name),
        updated=prefix_name("redisson_map_cache_updated", name),
        removed=prefix_name("redisson_map_cache_removed", name),
        expired=prefix_name("redisson_map_cache_expired", name),
    )


def lock(name: str, mapper: NameMapper | None = None) -> LockNames:
    """The names of the lock ``name``."""
    name = mapper(name) if mapper else name
    return LockNames(
        lock=name,
        token=prefix_name("redisson_lock_token", name),
        channel=prefix_name("redisson_lock__channel", name),
    )
