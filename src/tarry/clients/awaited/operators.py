"""Python's operators on queues and maps. An awaited client has none: an operator cannot be awaited."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class SizedOperators:
    """No ``len(queue)``: ``await queue.size()``."""


class CollectionOperators(SizedOperators, Generic[V]):
    """No ``value in queue``: ``await queue.contains(value)``."""


class MappingOperators(CollectionOperators[K], Generic[K, V]):
    """No ``cache[key]``: ``await cache.get(key)``, ``put``, ``remove``."""
