# Made from src/tarry/clients/redisson/awaited/map_dict.py by tools/blocking.py: change that file, then `make blocking`.
"""A map cache as a dictionary, blocking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

from msgspec import UNSET

from tarry.clients.blocking.concurrency import MappingOperators
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

    def get(self, key: K) -> V | None: ...
    def put_if_absent(self, key: K, value: V) -> V | None: ...
    def put_all(self, entries: Mapping[K, V]) -> None: ...
    def remove(self, key: K) -> V | None: ...
    def clear(self) -> bool: ...


@own_methods
class MapDict(MappingOperators[K, V]):
    """A map cache as a ``MutableMapping``. ``cache.as_dict()`` makes it, and all its data is in the map cache.

    The dictionary has ``entries[key]``, ``key in entries``, ``len(entries)``, ``del entries[key]``, ``entries.pop(key)`` and
    ``for key in entries``. A value cannot be ``None``. Entries that are put here never expire. To give an entry a time to live, use the
    methods of the map cache.
    """

    def __init__(self, cache: DictVerbs[K, V], page: Callable[[bytes], Page]) -> None:
        self._cache = cache
        self._page = page

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._cache!r}>"

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V | T) -> V | T: ...
    def get(self, key: K, default: Any = None) -> Any:
        """The value of a key, or ``default``. The entry's idle time begins again. Raises ``BodyError`` if the codec cannot read it."""
        found = self._cache.get(key)
        return default if found is None else found

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V | T) -> V | T: ...
    def pop(self, key: K, default: Any = UNSET) -> Any:
        """Removes an entry and returns its value. If there is none, returns ``default`` if it was given, else raises ``KeyError``.

        If two callers pop the same key at once, only one gets the value.
        """
        found = self._cache.remove(key)
        if found is None and default is UNSET:
            raise KeyError(key)
        return default if found is None else found

    def popitem(self) -> tuple[K, V]:
        """Removes any entry and returns it. Raises ``KeyError`` if the map is empty. Two callers at once get different
        entries."""
        for key in self:
            found = self._cache.remove(key)
            if found is not None:
                return key, found
        raise KeyError(f"popitem(): the map {self._cache.name!r} is empty")

    def clear(self) -> None:
        """Removes all entries, without events, as the map's ``clear``."""
        self._cache.clear()

    def setdefault(self, key: K, default: V | None = None) -> V:
        """Returns the value of a key. If there is none, puts and returns ``default``. To give the new entry a time to
        live, use ``put_if_absent``.

        Two callers at once both get the value of the first. Raises ``BadInput`` without a default, because a value is never
        ``None``.
        """
        value = cast("V", default)
        found = self._cache.put_if_absent(key, value)
        return value if found is None else found

    def update(self, entries: SupportsKeysAndGetItem[K, V] | Iterable[tuple[K, V]] = (), /, **more: V) -> None:
        """Puts many entries, from a mapping or pairs. To give them a time to live, use ``put_all`` of the map.

        Raises ``BadInput`` before anything is written.
        """
        given: Any = dict(entries)
        self._cache.put_all(given | more)

    def __iter__(self) -> Iterator[K]:
        decode = self._cache.verbs.context.decode_key_or_opaque
        for key, _ in self._stored():
            yield decode(key)

    def _values(self) -> Iterator[V]:
        decode = self._cache.verbs.context.decode_or_opaque
        for _, value in self._stored():
            yield decode(value)

    def _items(self) -> Iterator[tuple[K, V]]:
        context = self._cache.verbs.context
        for key, value in self._stored():
            yield context.decode_key_or_opaque(key), context.decode_or_opaque(value)

    def _stored(self) -> Iterator[tuple[bytes, bytes]]:
        """The server may show an entry twice while its table grows."""
        seen: set[bytes] = set()
        cursor = b""
        while cursor != b"0":
            cursor, pairs = self._page(cursor or b"0")
            for key, value in pairs:
                if key not in seen:
                    seen.add(key)
                    yield key, value
