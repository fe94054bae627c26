"""``tarry.AsyncHTTPClient``: a client of a service, awaited. For machines that can reach only a service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from tarry.clients.awaited.blocking_queue import AsyncBlockingQueue
from tarry.clients.awaited.delayed_queue import AsyncDelayedQueue
from tarry.clients.awaited.guarded_queue import AsyncGuard, AsyncGuardedQueue
from tarry.clients.awaited.locks import AsyncLock
from tarry.clients.awaited.mapcache import AsyncMapCache
from tarry.clients.awaited.schedules import AsyncSchedules
from tarry.clients.awaited.topic import AsyncTopic, pop_first
from tarry.clients.config import MAX_BODY, PATIENCE
from tarry.clients.handles import handle_of
from tarry.clients.http.awaited_engine import AsyncHTTPGuardedQueue, HTTPEngine, HTTPLocks
from tarry.clients.http.config import HTTPClientConfig, topics_request, worker_mode_request, workers_request
from tarry.clients.http.requests import ServiceAddress
from tarry.clients.http.verbs import migration
from tarry.clients.http.verbs.unsupported import not_supported
from tarry.clients.lock_options import LockOptions
from tarry.clients.map_caches import Policy
from tarry.clients.migration import MovedOver
from tarry.values.durations import Duration
from tarry.values.other_words import TOPIC, OtherWord, refuse_other_with
from tarry.verbs.codecs import Codec
from tarry.verbs.jobs.migration import Migrated
from tarry.verbs.mapcache.models import Backend
from tarry.verbs.workers import WorkerInfo, WorkerMode

if TYPE_CHECKING:
    from tarry.clients.awaited.job import AsyncJob

T = TypeVar("T")


@refuse_other_with
class AsyncHTTPClient:
    """The same as ``HTTPClient``, awaited. Cancelling a pop loses nothing: the service gives back what it handed out."""

    # blocking: A client of a service (``tarry serve``), with the verbs of ``Client``: thread-safe, fork-safe, a context manager.
    #
    # ``url`` is the service's (else ``TARRY_SERVICE_URL``, else http://127.0.0.1:7070), ``token`` opens it (else
    # ``TARRY_TOKEN``), ``namespace`` is the token's or the service's first unless it is given; ``queue_format`` as ``Client`` has
    # it, and the service's own without. Raises what ``Client`` raises,
    # and ``NotAllowed``. Verbs that do not exist over HTTP raise ``ServerUnfit``.

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        token: str | None = None,
        max_body: int = MAX_BODY,
        patience: Duration = PATIENCE,
        queue_format: str | None = None,
    ) -> None:
        self.engine = HTTPEngine(
            HTTPClientConfig(ServiceAddress.find(url, namespace, token), max_body, patience, queue_format)
        )
        self.namespace = namespace

    if not TYPE_CHECKING:
        queue = OtherWord(TOPIC)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.engine.config.redacted}>"

    async def __aenter__(self) -> AsyncHTTPClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. A later verb raises ``BadInput``."""
        await self.engine.close()

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T], partitions: int | None = None) -> AsyncTopic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None, partitions: int | None = None) -> AsyncTopic[Any]: ...
    def topic(
        self, name: str, *, type: type[Any] | Codec[Any] | None = None, partitions: int | None = None
    ) -> AsyncTopic[Any]:
        """A topic by its name, with the verbs of every topic. ``type`` and ``partitions`` as ``Client`` has them."""
        return AsyncTopic(self.engine, self.engine.config.verbs(name, type, partitions))

    async def topics(self) -> list[str]:
        """The topics that have been added to, by name. A hint: a purged one stays in it."""
        return await self.engine.perform(topics_request())

    async def workers(self) -> list[WorkerInfo]:
        """The running worker processes by name, from their last reports: their topics, how busy they are, the longest-running
        jobs. A killed worker is listed for up to 30 s."""
        return await self.engine.perform(workers_request())

    async def set_worker_mode(self, worker: str, mode: WorkerMode) -> bool:
        """Asks a worker, by its name in ``workers()``, to be ``"quiet"`` (it takes no new jobs and goes on with those that it has),
        to ``"stop"`` as SIGTERM does, or to ``"work"`` again. It learns of it with its next report, within ten seconds.

        Returns whether it is alive. Raises ``BadInput`` for a worker of a version that cannot be asked.
        """
        return await self.engine.perform(worker_mode_request(worker, mode))

    async def pop(
        self, *topics: AsyncTopic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None
    ) -> AsyncJob[Any] | None:
        """A job of the first topic, in the order given, that has one ready; ``None`` when none is due within ``wait``."""
        chosen = [handle_of("pop", AsyncTopic, topic, self.topic) for topic in topics]
        self.engine.config.refuse_others("pop", *chosen)
        jobs = await pop_first(self.engine, chosen, 1, wait, ttr)
        return jobs[0] if jobs else None

    @property
    def schedules(self) -> AsyncSchedules:
        """Schedules, which add jobs again and again: put, get, list, pause, resume, delete."""
        return AsyncSchedules(self.engine, self.engine.config.schedules())

    def lock(self, name: str, *, wait: Duration | None = None, lease: Duration | None = None) -> AsyncLock:
        """The lock that Redisson calls ``getLock(name)``: its ``state()``, and ``force_release()``.

        Over HTTP it cannot be acquired: a holder renews its lock, and no service would notice when this process dies.
        """
        locks: Any = HTTPLocks(self.engine)
        return AsyncLock(
            lambda: locks, name, LockOptions(wait, lease), kept_in="redis", address=self.engine.config.address.redacted
        )

    def guarded_queue(
        self,
        name: str,
        *,
        guard: AsyncGuard | None = None,
        layout: str = "tarry",
        type: Any = None,
        max_lateness: Duration | None = None,
        on_late: Callable[[timedelta], object] | None = None,
    ) -> AsyncGuardedQueue[Any]:
        """A guarded queue: a sorted set of values by their due times; each verb is one atomic script at the service.

        ``guard`` cannot be given here. ``layout``, ``type``, ``max_lateness`` and ``on_late`` as ``Client`` has them.
        """
        context, verbs = self.engine.config.guarded(name, guard, layout, type, max_lateness, on_late)
        return AsyncHTTPGuardedQueue(self.engine, context, verbs, on_late)

    def delayed_queue(
        self, name: str, *, codec: str | Codec[Any] = "kryo5", format: str | None = None
    ) -> AsyncDelayedQueue[Any]:
        """The delayed queue that Redisson calls ``getDelayedQueue(getBlockingQueue(name))``.

        ``codec`` and ``format`` as ``Client`` has them; values are encoded here, so a codec may be your own.
        """
        return AsyncDelayedQueue(self.engine, self.engine.config.delayed(name, codec, format))

    def blocking_queue(self, name: str, *, codec: str | Codec[Any] = "kryo5") -> AsyncBlockingQueue[Any]:
        """The queue that Redisson calls ``getBlockingQueue(name)``, where a delayed queue delivers."""
        return AsyncBlockingQueue(self.engine, self.engine.config.blocking(name, codec))

    async def keep_moving(self, *queues: str) -> None:  # noqa: ARG002  # as Client has it
        """Raises ``ServerUnfit``: a service moves the queues that it was started with, and those that have a waiting consumer."""
        raise not_supported("keep_moving")

    async def move_to_topic(
        self,
        queue: AsyncDelayedQueue[Any],
        topic: AsyncTopic[Any] | str,
        *,
        dry_run: bool = False,
        redirect: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> MovedOver:
        """Moves the elements that are not due yet out of a queue into a topic of the same service, with their due times;
        ``dry_run`` only counts. ``codec`` of the queue must have a name. ``progress`` is called with the number of moved elements."""
        source, chosen = handle_of("queue", AsyncDelayedQueue, queue), handle_of("topic", AsyncTopic, topic, self.topic)
        place = self.engine.config.service
        return await self.engine.run(
            migration.move_to_topic(place, source, chosen, dry_run=dry_run, redirect=redirect, progress=progress)
        )

    async def migrate(
        self,
        topic: AsyncTopic[T] | str,
        to: AsyncTopic[T],
        *,
        dry_run: bool = False,
        redirect: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> Migrated:
        """Moves the waiting jobs, the dead jobs and the schedules into another topic of the same service and namespace;
        ``dry_run`` only counts.

        As ``Client`` does it, in steps: safe to interrupt and to call again. ``progress`` is called with the number of moved jobs.
        """
        mine, there = handle_of("topic", AsyncTopic, topic, self.topic), handle_of("to", AsyncTopic, to)
        place = self.engine.config.service
        return await self.engine.run(
            migration.migrate(place, mine, there, dry_run=dry_run, redirect=redirect, progress=progress)
        )

    def map_cache(
        self,
        name: str,
        *,
        codec: str | Codec[Any] = "kryo5",
        key_codec: str | Codec[Any] | None = None,
        backend: Backend = "redisson",
        policy: Policy = "deadline",
    ) -> AsyncMapCache[Any, Any]:
        """The map that Redisson calls ``getMapCache(name)``, to read only: ``stats()``, ``size()``, its entries one after the
        other, ``get_with_ttl_only``, ``remaining_ttl``, ``contains_value``. Verbs that change it raise ``ServerUnfit``."""
        return AsyncMapCache(self.engine, self.engine.config.map_cache(name, codec, key_codec, backend), policy)
