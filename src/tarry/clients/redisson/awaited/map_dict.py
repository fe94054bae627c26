"""A map cache as a dictionary, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from msgspec import UNSET

from tarry.clients.awaited.concurrency import MappingOperators
from tarry.values.other_words import own_methods

if TYPE_CHECKING:
    from _typeshed import SupportsKeysAndGetItem

    from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")
Page = tuple[bytes, list[tuple[bytes, bytes]]]
"""The next cursor, and entries as they are stored."""


class DictVerbs(Protocol[K, V]):
    """The verbs of a map that its dictionary calls."""

    name: str
    verbs: MapVerbs[K, V]

    async def get(self, key: K) -> V | None: ...
    async def put_if_absent(self, key: K, value: V) -> V | None: ...
    async def put_all(self, entries: Mapping[K, V]) -> None: ...
    async def remove(self, key: K) -> V | None: ...
    async def clear(self) -> bool: ...


@own_methods
class AsyncMapDict(MappingOperators[K, V]):
    """A map cache with the methods of a dictionary, awaited. Made by ``cache.as_dict()``; it has no state of its own.

    Its methods are ``await entries.pop(key)``, ``setdefault``, ``update`` and ``async for key in entries``. A value is never ``None``.
    Entries that are put here live forever; to give them a time to live, use the methods of the map.
    """

    # blocking: A map cache as a ``MutableMapping``. ``cache.as_dict()`` makes it, and all its data is in the map cache.
    #
    # The dictionary has ``entries[key]``, ``key in entries``, ``len(entries)``, ``del entries[key]``, ``entries.pop(key)`` and
    # ``for key in entries``. A value cannot be ``None``. Entries that are put here never expire. To give an entry a time to live, use the
    # methods of the map cache.

    def __init__(self, cache: DictVerbs[K, V], page: Callable[[bytes], Awaitable[Page]]) -> None:
        self._cache = cache
        self._page = page

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._cache!r}>"

    @overload
    async def get(self, key: K) -> V | None: ...
    @overload
    async def get(self, key: K, default: V | T) -> V | T: ...
    async def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or ``default``. The entry's idle time begins again. Raises ``BodyError`` if the codec cannot read it."""
        found = await self._cache.get(key)
        return default if found is None else found

    @overload
    async def pop(self, key: K) -> V: ...
    @overload
    async def pop(self, key: K, default: V | T) -> V | T: ...
    async def pop(self, key: K, default: Any = UNSET) -> Any:
        """Removes an entry and returns its value. If there is none, returns ``default`` if it was given, else raises ``KeyError``.

        If two callers pop the same key at once, only one gets the value.
        """
        found = await self._cache.remove(key)
        if found is None and default is UNSET:
            raise KeyError(key)
        return default if found is None else found

    async def popitem(self) -> tuple[K, V]:
        """Removes any entry and returns it. Raises ``KeyError`` if the map is empty. Two callers at once get different
        entries."""
        async for key in self:
            found = await self._cache.remove(key)
            if found is not None:
                return key, found
        raise KeyError(f"popitem(): the map {self._cache.name!r} is empty")

    async def clear(self) -> None:
        """Removes all entries, without events, as the map's ``clear``."""
        await self._cache.clear()

    async def setdefault(self, key: K, default: V | None = None) -> V:
        """Returns the value of a key. If there is none, puts and returns ``default``. To give the new entry a time to
        live, use ``put_if_absent``.

        Two callers at once both get the value of the first. Raises ``BadInput`` without a default, because a value is never
        ``None``.
        """
        value = cast("V", default)
        found = await self._cache.put_if_absent(key, value)
        return value if found is None else found

    async def update(self, entries: SupportsKeysAndGetItem[K, V] | Iterable[tuple[K, V]] = (), /, **more: V) -> None:
        """Puts many entries, from a mapping or pairs. To give them a time to live, use ``put_all`` of the map.

        Raises ``BadInput`` before anything is written.
        """
        given: Any = dict(entries)
        await self._cache.put_all(given | more)

    async def __aiter__(self) -> AsyncIterator[K]:
        decode = self._cache.verbs.context.decode_key_or_opaque
        async for key, _ in self._stored():
            yield decode(key)

    async def _values(self) -> AsyncIterator[V]:
        decode = self._cache.verbs.context.decode_or_opaque
        async for _, value in self._stored():
            yield decode(value)

    async def _items(self) -> AsyncIterator[tuple[K, V]]:
        context = self._cache.verbs.context
        async for key, value in self._stored():
            yield context.decode_key_or_opaque(key), context.decode_or_opaque(value)

    async def _stored(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """The server may show an entry twice while its table grows."""
        seen: set[bytes] = set()
        cursor = b""
        while cursor != b"0":
            cursor, pairs = await self._page(cursor or b"0")
            for key, value in pairs:
                if key not in seen:
                    seen.add(key)
                    yield key, value
