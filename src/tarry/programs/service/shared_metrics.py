"""Metrics of locks, and of maps and queues that are shared with Java; only of those named in the settings, for no key lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from tarry import AsyncClient, LockState
    from tarry.programs.service.skipped_topics import SkippedTopics
    from tarry.redisson import MapStats, QueueStats

T = TypeVar("T")


GAUGES: dict[str, tuple[str, Callable[[QueueStats], float]]] = {
    "tarry_delayed_queue_waiting": ("Elements of a shared queue that are not moved yet.", lambda stats: stats.waiting),
    "tarry_delayed_queue_overdue": ("Elements that are due and not moved.", lambda stats: stats.overdue),
    "tarry_delayed_queue_ready": ("Elements that may be taken.", lambda stats: stats.ready),
    "tarry_delayed_queue_poison": ("What could not be read or handled and was set aside.", lambda stats: stats.poison),
    "tarry_delayed_queue_leaving": ("Elements on their way into a topic.", lambda stats: stats.leaving),
    "tarry_delayed_queue_movers": ("Processes that have promised to look: two at most.", lambda stats: stats.movers),
    "tarry_delayed_queue_oldest_overdue_seconds": (
        "How late the first element is that is not moved; 0 without one.",
        lambda stats: stats.oldest_overdue.total_seconds(),
    ),
}
"""The metrics of a shared queue: name, help, value. Each has the label ``queue``."""


async def exposition(
    client: AsyncClient,
    maps: Iterable[str],
    queues: Iterable[str],
    locks: Iterable[tuple[str, bool]],
    skipped: SkippedTopics,
) -> bytes:
    """The metrics of maps, queues and locks as text, without those that cannot be read. Raises ``Unavailable``."""
    map_caches = [client.map_cache(name, codec="bytes", policy=None) for name in maps]
    delayed_queues = [client.delayed_queue(name, codec="bytes") for name in queues]
    seen = await _all([skipped.or_none(f"map {one.name}", one.stats()) for one in map_caches])
    found = await _all([skipped.or_none(f"queue {one.name}", one.stats()) for one in delayed_queues])
    states = await _all([skipped.or_none(f"lock {name}", _state(client, name, shared)) for name, shared in locks])
    return (
        generate_latest(_MapCollector(seen))
        + generate_latest(_QueueCollector(found))
        + generate_latest(_LockCollector(states))
    )


async def _state(client: AsyncClient, name: str, shared: bool) -> tuple[LockState, bool]:
    return await client.lock(name, shared=shared).state(), shared


async def _all(requests: list[Coroutine[Any, Any, T | None]]) -> list[T]:
    return [one for one in await asyncio.gather(*requests) if one is not None]


class _LockCollector(CollectorRegistry):
    """The locks at one moment, as a registry that is collected once."""

    def __init__(self, states: list[tuple[LockState, bool]]) -> None:
        super().__init__(auto_describe=False)
        self._states = states

    def collect(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("tarry_lock_held", "1 while somebody has the lock.", labels=("lock", "shared"))
        waiting = GaugeMetricFamily("tarry_lock_waiting", "Clients that wait for the lock.", labels=("lock", "shared"))
        for now, shared in self._states:
            labels = (now.name, "true" if shared else "false")
            held.add_metric(labels, now.held)
            waiting.add_metric(labels, now.waiting or 0)
        yield from (held, waiting)


class _QueueCollector(CollectorRegistry):
    """The queues at one moment, as a registry that is collected once."""

    def __init__(self, states: list[QueueStats]) -> None:
        super().__init__(auto_describe=False)
        self._states = states

    def collect(self) -> Iterator[Metric]:
        for name, (words, value) in GAUGES.items():
            gauge = GaugeMetricFamily(name, words, labels=("queue",))
            for now in self._states:
                gauge.add_metric((now.queue,), value(now))
            yield gauge


class _MapCollector(CollectorRegistry):
    """The maps at one moment, as a registry that is collected once."""

    def __init__(self, states: list[MapStats]) -> None:
        super().__init__(auto_describe=False)
        self._states = states

    def collect(self) -> Iterator[Metric]:
        entries = GaugeMetricFamily(
            "tarry_map_cache_entries", "Entries that live, and expired ones that wait.", labels=("map", "state")
        )
        most = GaugeMetricFamily("tarry_map_cache_max_size", "The maximum size; 0 without one.", labels=("map",))
        due = GaugeMetricFamily("tarry_map_cache_next_expiry_seconds", "Until the next expires.", labels=("map",))
        evictors = GaugeMetricFamily("tarry_map_cache_evictors", "The evictor and its deputy.", labels=("map",))
        for now in self._states:
            entries.add_metric((now.name, "live"), now.size)
            entries.add_metric((now.name, "expired"), now.expired)
            most.add_metric((now.name,), now.max_size or 0)
            evictors.add_metric((now.name,), now.evictors)
            if now.next_expiry is not None:
                due.add_metric((now.name,), max((now.next_expiry - now.now).total_seconds(), 0.0))
        yield from (entries, most, due, evictors)
