# Made from src/tarry/clients/redisson/awaited/dict_methods.py by tools/blocking.py: change that file, then `make blocking`.
"""A map cache as a dictionary, blocking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import UNSET

from tarry.clients.blocking.concurrency import MappingOperators

if TYPE_CHECKING:
    from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class DictMethods(MappingOperators[K, V]):
    """The methods of a dictionary, made of the verbs of a map cache."""

    verbs: MapVerbs[K, V]

    if TYPE_CHECKING:  # the verbs of the whole

        def put_if_absent(self, key: K, value: V) -> V | None: ...
        def put_all(self, entries: Mapping[K, V]) -> None: ...
        def remove(self, key: K) -> V | None: ...
        def _page(self, cursor: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]: ...

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: T) -> V | T: ...
    def pop(self, key: K, default: Any = UNSET) -> Any:
        """Removes an entry and returns its value, as ``remove``; ``default`` where there is none, or ``KeyError``.

        Of two callers that pop the same key at once, one gets the value.
        """
        found = self.remove(key)
        if found is None and default is UNSET:
            raise KeyError(key)
        return default if found is None else found

    def setdefault(self, key: K, default: V) -> V:
        """Returns the value of a key; where there is none, puts and returns ``default``. ``put_if_absent`` gives it times.

        Of two callers at once, both get the value of the first.
        """
        found = self.put_if_absent(key, default)
        return default if found is None else found

    def update(self, entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Puts many entries, of a mapping or of pairs, as ``put_all``, which gives them times.

        Raises ``BadInput`` before anything is written.
        """
        self.put_all(dict(entries))

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def keys(self) -> Iterator[K]:
        """The keys, read a page at a time: each once, none that has expired; no use of them. ``Opaque`` if unreadable."""
        return (self.verbs.context.decode_key_or_opaque(key) for key, _ in self._all_entries())

    def values(self) -> Iterator[V]:
        """The values, as ``keys``."""
        return (self.verbs.context.decode_or_opaque(value) for _, value in self._all_entries())

    def items(self) -> Iterator[tuple[K, V]]:
        """The entries, as ``keys``."""
        context = self.verbs.context
        return (
            (context.decode_key_or_opaque(key), context.decode_or_opaque(value)) for key, value in self._all_entries()
        )

    def _all_entries(self) -> Iterator[tuple[bytes, bytes]]:
        """The server may show an entry twice while its table grows."""
        seen: set[bytes] = set()
        cursor = b""
        while cursor != b"0":
            cursor, pairs = self._page(cursor or b"0")
            for key, value in pairs:
                if key not in seen:
                    seen.add(key)
                    yield key, value
