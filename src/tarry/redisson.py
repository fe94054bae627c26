"""tarry.redisson: the handles and results of queues and maps that are shared with Java on Redisson.

    from tarry.redisson import MapCache

    prices: MapCache[str, int] = client.map_cache("prices", redisson="3.50.0")

A client makes the handles: ``blocking_queue``, ``delayed_queue``, ``map_cache``.
"""

from typing import TYPE_CHECKING

from tarry import values

if TYPE_CHECKING:
    from tarry.clients.redisson.awaited.blocking_queue import AsyncBlockingQueue, AsyncSubscription
    from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue
    from tarry.clients.redisson.awaited.map_dict import AsyncMapDict
    from tarry.clients.redisson.awaited.map_listener import AsyncMapListener
    from tarry.clients.redisson.awaited.mapcache import AsyncMapCache
    from tarry.clients.redisson.blocking.blocking_queue import BlockingQueue, Subscription
    from tarry.clients.redisson.blocking.delayed_queue import DelayedQueue
    from tarry.clients.redisson.blocking.map_dict import MapDict
    from tarry.clients.redisson.blocking.map_listener import MapListener
    from tarry.clients.redisson.blocking.mapcache import MapCache
    from tarry.verbs.redisson.delayed.stats import QueueStats
    from tarry.verbs.redisson.delayed.transfer import PoisonElement
    from tarry.verbs.redisson.mapcache.eviction import AdaptivePolicy
    from tarry.verbs.redisson.mapcache.map_values import MapEvent, MapStats
    from tarry.verbs.redisson.values import Opaque

__all__ = [
    "AdaptivePolicy",
    "AsyncBlockingQueue",
    "AsyncDelayedQueue",
    "AsyncMapCache",
    "AsyncMapDict",
    "AsyncMapListener",
    "AsyncSubscription",
    "BlockingQueue",
    "DelayedQueue",
    "MapCache",
    "MapDict",
    "MapEvent",
    "MapListener",
    "MapStats",
    "Opaque",
    "PoisonElement",
    "QueueStats",
    "Subscription",
]
_NAMES_BY_MODULE = {
    "clients.redisson.awaited.blocking_queue": "AsyncBlockingQueue AsyncSubscription",
    "clients.redisson.awaited.delayed_queue": "AsyncDelayedQueue",
    "clients.redisson.awaited.map_dict": "AsyncMapDict",
    "clients.redisson.awaited.map_listener": "AsyncMapListener",
    "clients.redisson.awaited.mapcache": "AsyncMapCache",
    "clients.redisson.blocking.blocking_queue": "BlockingQueue Subscription",
    "clients.redisson.blocking.delayed_queue": "DelayedQueue",
    "clients.redisson.blocking.map_dict": "MapDict",
    "clients.redisson.blocking.map_listener": "MapListener",
    "clients.redisson.blocking.mapcache": "MapCache",
    "verbs.redisson.delayed.stats": "QueueStats",
    "verbs.redisson.delayed.transfer": "PoisonElement",
    "verbs.redisson.mapcache.eviction": "AdaptivePolicy",
    "verbs.redisson.mapcache.map_values": "MapEvent MapStats",
    "verbs.redisson.values": "Opaque",
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used."""
        return values.find_name(__name__, _MODULE_OF, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
