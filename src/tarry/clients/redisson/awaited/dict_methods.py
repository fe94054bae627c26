"""A map cache as a dictionary, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import UNSET

from tarry.clients.awaited.concurrency import MappingOperators

if TYPE_CHECKING:
    from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class AsyncDictMethods(MappingOperators[K, V]):
    """The methods of a dictionary, made of the verbs of a map cache."""

    verbs: MapVerbs[K, V]

    if TYPE_CHECKING:  # the verbs of the whole

        async def put_if_absent(self, key: K, value: V) -> V | None: ...
        async def put_all(self, entries: Mapping[K, V]) -> None: ...
        async def remove(self, key: K) -> V | None: ...
        async def _page(self, cursor: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]: ...

    @overload
    async def pop(self, key: K) -> V: ...
    @overload
    async def pop(self, key: K, default: T) -> V | T: ...
    async def pop(self, key: K, default: Any = UNSET) -> Any:
        """Removes an entry and returns its value, as ``remove``; ``default`` where there is none, or ``KeyError``.

        Of two callers that pop the same key at once, one gets the value.
        """
        found = await self.remove(key)
        if found is None and default is UNSET:
            raise KeyError(key)
        return default if found is None else found

    async def setdefault(self, key: K, default: V) -> V:
        """Returns the value of a key; where there is none, puts and returns ``default``. ``put_if_absent`` gives it times.

        Of two callers at once, both get the value of the first.
        """
        found = await self.put_if_absent(key, default)
        return default if found is None else found

    async def update(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Puts many entries, of a mapping or of pairs, as ``put_all``, which gives them times.

        Raises ``BadInput`` before anything is written.
        """
        await self.put_all(dict(entries))

    def __aiter__(self) -> AsyncIterator[K]:
        return self.keys()

    def keys(self) -> AsyncIterator[K]:
        """The keys, read a page at a time: each once, none that has expired; no use of them. ``Opaque`` if unreadable."""
        return (self.verbs.context.decode_key_or_opaque(key) async for key, _ in self._all_entries())

    def values(self) -> AsyncIterator[V]:
        """The values, as ``keys``."""
        return (self.verbs.context.decode_or_opaque(value) async for _, value in self._all_entries())

    def items(self) -> AsyncIterator[tuple[K, V]]:
        """The entries, as ``keys``."""
        context = self.verbs.context
        return (
            (context.decode_key_or_opaque(key), context.decode_or_opaque(value))
            async for key, value in self._all_entries()
        )

    async def _all_entries(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """The server may show an entry twice while its table grows."""
        seen: set[bytes] = set()
        cursor = b""
        while cursor != b"0":
            cursor, pairs = await self._page(cursor or b"0")
            for key, value in pairs:
                if key not in seen:
                    seen.add(key)
                    yield key, value
