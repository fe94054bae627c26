"""Map caches that are shared with Java applications on Redisson, awaited: the names of their verbs."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from msgspec import UNSET, UnsetType

from tarry.clients.redisson.awaited.duty_loop import DutyLoop
from tarry.clients.redisson.awaited.loader import load
from tarry.clients.redisson.awaited.map_dict import AsyncMapDict
from tarry.clients.redisson.awaited.map_listener import AsyncMapListener, HandlerCalls
from tarry.clients.redisson.map_caches import Policy, adaptive_policy, eviction_of
from tarry.core.requests import Operation
from tarry.values.durations import Duration
from tarry.values.other_words import AS_DICT, HidesOtherWords, OtherOperator
from tarry.verbs.redisson.mapcache.load import DEFAULT_LEASE_S
from tarry.verbs.redisson.mapcache.map_values import EventKind, MapEvent, MapStats, Mode
from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class AsyncMapCache(Generic[K, V], metaclass=HidesOtherWords):
    """Redisson's ``RMapCache``: a map in which each entry has a time to live and an idle time of its own.

    Made by ``client.map_cache(name)``. It has the methods of the Java map; ``as_dict()`` is the same map with the methods of a dictionary.
    A value is never ``None``. After the first call, this object removes expired entries until it is closed or dropped.
    """

    if not TYPE_CHECKING:
        __getitem__ = OtherOperator(AS_DICT)
        __setitem__ = OtherOperator(AS_DICT)
        __delitem__ = OtherOperator(AS_DICT)
        __iter__ = None  # else Python would take __getitem__ for that of a sequence

    def __init__(self, engine: HandleEngine, verbs: MapVerbs[K, V], policy: Policy) -> None:
        self._engine = engine
        self._policy = adaptive_policy(policy)
        self._has_policy = engine.keeps_maps and policy is not None and not verbs.native
        self._evictor_use: Any = None
        self.verbs = verbs
        self.name: str = verbs.context.name
        """The map's name, as in Java."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self._engine.config.address.redacted}>"

    async def __aenter__(self) -> AsyncMapCache[K, V]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """This object stops removing expired entries, until you use it again."""
        if self._evictor_use is not None:
            self._evictor_use[2]()
            self._evictor_use = None

    def as_dict(self) -> AsyncMapDict[K, V]:
        """The same map as a dictionary: ``pop``, ``setdefault``, ``update``, ``keys``, ``values``, ``items``, and iteration."""
        return AsyncMapDict(self, self._page)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def put(
        self,
        key: K,
        value: V,
        *,
        ttl: Duration | None = None,
        max_idle: Duration | None = None,
        keep_ttl: bool = False,
    ) -> V | None:
        """Puts an entry; returns the value that was there, or ``None``.

        The entry lives for ``ttl``, and no longer than ``max_idle`` after its last use; if you give neither, it does not expire. With ``keep_ttl``
        an entry that exists keeps the times that it has. Raises ``BadInput`` before anything is written.
        """
        return await self._run(self.verbs.put(key, value, ttl, max_idle, keep_ttl))

    async def fast_put(
        self,
        key: K,
        value: V,
        *,
        ttl: Duration | None = None,
        max_idle: Duration | None = None,
        keep_ttl: bool = False,
    ) -> bool:
        """Puts an entry, as ``put`` does. Returns whether the key is new."""
        return await self._run(self.verbs.fast_put(key, value, ttl, max_idle, keep_ttl))

    async def put_if_absent(
        self, key: K, value: V, *, ttl: Duration | None = None, max_idle: Duration | None = None
    ) -> V | None:
        """Puts an entry if the key has none. Otherwise changes nothing, and returns the existing value."""
        return await self._run(self.verbs.put_if_absent(key, value, ttl, max_idle))

    async def fast_put_if_absent(
        self, key: K, value: V, *, ttl: Duration | None = None, max_idle: Duration | None = None
    ) -> bool:
        """Puts an entry if the key has none. Returns whether it did."""
        return await self._run(self.verbs.fast_put_if_absent(key, value, ttl, max_idle))

    async def put_all(
        self,
        entries: Mapping[K, V],
        *,
        ttl: Duration | None = None,
        max_idle: Duration | None = None,
        keep_ttl: bool = False,
    ) -> None:
        """Puts many entries, with one round trip for every 200 entries or 1 MB."""
        await self._run(self.verbs.put_all(entries, ttl, max_idle, keep_ttl))

    @overload
    async def replace(self, key: K, value: V) -> V | None: ...
    @overload
    async def replace(self, key: K, value: V, new: V) -> bool: ...
    async def replace(self, key: K, value: V, new: V | UnsetType = UNSET) -> V | bool | None:
        """``replace(key, value)`` replaces an existing value, and returns the old one, or ``None``.

        ``replace(key, old, new)`` does so only if the existing value is ``old``, compared as bytes; returns whether it did. The
        entry keeps its time to live, and its idle time begins again. In a native map the entry loses its time to live, as in Java.
        """
        if new is UNSET:
            return await self._run(self.verbs.replace(key, value))
        return await self._run(self.verbs.replace_if(key, value, new))

    async def add_and_get(self, key: K, delta: float) -> float:
        """Adds a number to the value of a key; a missing value counts as 0. Returns the sum. The entry keeps its time to live.

        Use it with a codec that writes numbers as text: ``long``, ``json``, ``string``. Raises ``BadInput`` if the value is not a
        number, and if the sum has more than 64 bits.
        """
        return await self._run(self.verbs.add_and_get(key, delta))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, key: K) -> V | None:
        """The value of a key, or ``None``. The entry's idle time begins again. Raises ``BodyError`` if the codec cannot read it."""
        return await self._run(self.verbs.get(key))

    async def get_all(self, keys: Iterable[K]) -> dict[K, V]:
        """The entries of those keys that exist."""
        return await self._run(self.verbs.get_all(keys))

    async def get_with_ttl_only(self, key: K) -> V | None:
        """The value of a key, if its time to live is not over. The idle time does not matter, and does not begin again."""
        return await self._run(self.verbs.get_with_ttl_only(key))

    async def contains_key(self, key: K) -> bool:
        """Whether the key has an entry. The entry's idle time begins again."""
        return await self._run(self.verbs.contains_key(key))

    async def contains_value(self, value: V) -> bool:
        """Whether an entry has this value, compared as bytes. Reads the whole map, a page at a time."""
        return await self._run(self.verbs.contains_value(value))

    async def remaining_ttl(self, key: K) -> timedelta | None:
        """How long an entry will live if it is not used. ``timedelta.max`` means forever, ``None`` that there is no entry."""
        return await self._run(self.verbs.remaining_ttl(key))

    async def size(self) -> int:
        """How many entries there are, without the expired ones."""
        return await self._run(self.verbs.size())

    async def stats(self) -> MapStats:
        """Counts, the next expiry and the maximum size. Changes nothing."""
        return await self._engine.run_view(self.verbs.stats())

    # ── removing, expiring ───────────────────────────────────────────────────────────────────────────────────────────

    @overload
    async def remove(self, key: K) -> V | None: ...
    @overload
    async def remove(self, key: K, value: V) -> bool: ...
    async def remove(self, key: K, value: V | UnsetType = UNSET) -> V | bool | None:
        """``remove(key)`` removes an entry and returns its value, or ``None``.

        ``remove(key, value)`` removes it only if it has this value, compared as bytes; returns whether it did.
        """
        if value is UNSET:
            return await self._run(self.verbs.remove(key))
        return await self._run(self.verbs.remove_if(key, value))

    async def fast_remove(self, *keys: K) -> int:
        """Removes entries; returns how many there were."""
        return await self._run(self.verbs.fast_remove(keys))

    async def clear(self) -> bool:
        """Removes all entries, without events; the maximum size stays. Returns whether there was an entry."""
        return await self._run(self.verbs.clear())

    async def expire_entry(
        self, key: K, *, ttl: Duration | None = None, max_idle: Duration | None = None, if_not_set: bool = False
    ) -> bool:
        """Gives an entry a new time to live and idle time, counted from now; if you give neither, it never expires. Returns whether there was
        an entry.

        With ``if_not_set`` nothing changes if the entry already has one of the two.
        """
        return await self.expire_entries([key], ttl=ttl, max_idle=max_idle, if_not_set=if_not_set) > 0

    async def expire_entries(
        self,
        keys: Iterable[K],
        *,
        ttl: Duration | None = None,
        max_idle: Duration | None = None,
        if_not_set: bool = False,
    ) -> int:
        """Gives entries a new time to live and idle time, counted from now; if you give neither, they never expire. Returns how many entries
        there were."""
        return await self._run(self.verbs.expire_entries(keys, ttl, max_idle, if_not_set))

    async def expire(self, after: Duration, *, if_not_set: bool = False) -> bool:
        """Deletes the whole map after a time, without events. Returns whether there was a map.

        With ``if_not_set`` nothing changes if the map already has such a time.
        """
        return await self._run(self.verbs.expire(after, if_not_set))

    async def clear_expire(self) -> bool:
        """Removes the time that ``expire`` has set for the whole map. Returns whether there was one."""
        return await self._run(self.verbs.clear_expire())

    # ── maximum size, eviction ───────────────────────────────────────────────────────────────────────────────────────

    async def set_max_size(self, size: int, *, mode: Mode = "LRU") -> None:
        """Limits how many entries the map may have, for all clients; 0: any number.

        If there are more, this call and each later write remove some, with the event ``removed``: those whose last use is
        longest ago (``LRU``), or those that were used least often (``LFU``).
        """
        await self._run(self.verbs.set_max_size(size, mode, False))

    async def try_set_max_size(self, size: int, *, mode: Mode = "LRU") -> bool:
        """Sets the maximum size if the map has none yet. Returns whether the map has this maximum now."""
        return await self._run(self.verbs.set_max_size(size, mode, True))

    async def evict(self) -> int:
        """Removes the expired entries, with an event for each; returns their number. A policy does this in the background."""
        return await self._run(self.verbs.evict())

    # ── loading, listening ───────────────────────────────────────────────────────────────────────────────────────────

    async def compute_if_absent(
        self,
        key: K,
        loader: Callable[[K], Awaitable[V | None]],
        *,
        ttl: Duration | None = None,
        max_idle: Duration | None = None,
        lease: Duration = DEFAULT_LEASE_S,
    ) -> V | None:
        """Returns the value of a key. If there is none, calls ``loader``, and puts and returns its value.

        Only one process at a time runs its loader, and the others wait for the value. This includes Java processes that call
        ``getWithLease``. If the loader fails, returns ``None`` or takes longer than ``lease``, the next process runs its loader. If another client
        has put a value for the key meanwhile, the loaded value is not put.
        """
        return await load(self._engine, self._run, self.verbs.load(key, ttl, max_idle, lease), lambda: loader(key))

    async def listen(self, handler: Callable[[MapEvent[K, V]], Any], *kinds: EventKind) -> AsyncMapListener:
        """Calls a handler with the events of entries, also with those that Java publishes: ``created``, ``updated``, ``removed``,
        ``expired``, or all of them.

        The handler gets one event after the other, in a thread of the client. If it fails, the error is logged. Events that
        happen while the connection is lost are missed. Once a map has had a listener, all clients publish its events, as long as the server keeps the
        map's options.
        """
        calls = HandlerCalls(self._engine, self.verbs, self._evictor_key, handler, kinds)
        await calls.begin()
        return AsyncMapListener(calls)

    # ── what the verbs use ───────────────────────────────────────────────────────────────────────────────────────────

    async def _page(self, cursor: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        return await self._run(self.verbs.page(cursor))

    async def _run(self, operation: Operation[T]) -> T:
        if self._has_policy:
            self._ensure_evictor()
        return await self._engine.run(operation)

    def _evictor_key(self) -> None:
        if self._has_policy:
            self._ensure_evictor()

    def _ensure_evictor(self) -> None:
        """The evictor of this process knows that this handle is there."""
        duties = self._engine.shared_part(DutyLoop)
        place = self.verbs.keys.hints
        if (
            self._evictor_use is None
            or self._evictor_use[0] is not duties
            or not duties.is_used(place, self._evictor_use[1])
        ):
            user = duties.add([eviction_of(self.verbs.context, self._policy, duties.client_id)])
            release = weakref.finalize(self, duties.remove, place, user)
            release.atexit = False
            self._evictor_use = duties, user, release
