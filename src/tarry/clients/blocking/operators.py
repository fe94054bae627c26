"""Python's operators on queues and maps: ``len(queue)``, ``value in queue``, ``cache[key]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SizedOperators:
    """``len(queue)``."""

    if TYPE_CHECKING:  # the verbs of the whole

        def size(self) -> int: ...

    def __len__(self) -> int:
        return self.size()


class CollectionOperators(SizedOperators, Generic[V]):
    """``value in queue``."""

    if TYPE_CHECKING:

        def contains(self, value: V, /) -> bool: ...

    def __contains__(self, value: V) -> bool:
        return self.contains(value)


class MappingOperators(CollectionOperators[K], Generic[K, V]):
    """``cache[key]``."""

    if TYPE_CHECKING:

        def get(self, key: K) -> Any: ...
        def fast_put(self, key: K, value: V) -> bool: ...
        def fast_remove(self, *keys: K) -> int: ...

    def __getitem__(self, key: K) -> V:
        found: V | None = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: K, value: V) -> None:
        self.fast_put(key, value)

    def __delitem__(self, key: K) -> None:
        if not self.fast_remove(key):
            raise KeyError(key)
