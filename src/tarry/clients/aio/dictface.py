"""A map cache as a dictionary, as far as that can be awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from tarry.verbs.mapcache.face import MapVerbs

K = TypeVar("K")
V = TypeVar("V")


class AsyncDictFace(Generic[K, V]):
    """What people do with a dictionary, by the verbs of a map cache."""

    _verbs: MapVerbs[K, V]

    if TYPE_CHECKING:  # the verbs of the whole

        async def _page(self, cursor: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]: ...

    def __aiter__(self) -> AsyncIterator[K]:
        return self.keys()

    def keys(self) -> AsyncIterator[K]:
        """The keys, read a page at a time: each once, none that has expired; no use of them. ``Opaque`` if unreadable."""
        return (self._verbs.desk.seen_key(key) async for key, _ in self._walk())

    def values(self) -> AsyncIterator[V]:
        """The values, as ``keys``."""
        return (self._verbs.desk.seen(value) async for _, value in self._walk())

    def items(self) -> AsyncIterator[tuple[K, V]]:
        """The entries, as ``keys``."""
        desk = self._verbs.desk
        return ((desk.seen_key(key), desk.seen(value)) async for key, value in self._walk())

    async def _walk(self) -> AsyncIterator[tuple[bytes, bytes]]:
        """The server may show an entry twice while its table grows."""
        seen: set[bytes] = set()
        cursor = b""
        while cursor != b"0":
            cursor, pairs = await self._page(cursor or b"0")
            for key, value in pairs:
                if key not in seen:
                    seen.add(key)
                    yield key, value
