"""``tarry.AsyncHTTPClient``: a client of a service, awaited. For machines that can reach only a service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, TypeVar

from tarry.clients.awaited.base_client import AsyncBaseClient, handle_of
from tarry.clients.awaited.guarded_queue import AsyncGuard, AsyncGuardedQueue
from tarry.clients.awaited.locks import AsyncLock
from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.config import MAX_BODY, PATIENCE, checked_portion
from tarry.clients.http.awaited_engine import AsyncHTTPGuardedQueue, HTTPEngine, HTTPLocks
from tarry.clients.http.config import HTTPClientConfig
from tarry.clients.http.requests import ServiceAddress
from tarry.clients.http.verbs import migration_requests as migration
from tarry.clients.http.verbs.unsupported import not_supported
from tarry.clients.lock_options import LockOptions, server_lock
from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue
from tarry.clients.redisson.awaited.mapcache import AsyncMapCache
from tarry.clients.redisson.map_caches import Policy
from tarry.values.durations import Duration
from tarry.values.other_words import (
    MISSING,
    OF_HTTP_CLIENT,
    OF_LOCK,
    hide_others,
    own_methods,
    refuse_other_with,
    refuse_others,
)
from tarry.verbs.codecs import Codec
from tarry.verbs.jobs.topic_migration import Migrated
from tarry.verbs.redisson.mapcache.map_values import Backend

if TYPE_CHECKING:
    pass

T = TypeVar("T")


@refuse_other_with
@own_methods
class AsyncHTTPClient(AsyncBaseClient[HTTPEngine]):
    """The same as ``HTTPClient``, awaited. Cancelling a pop loses nothing: the service releases what it handed out."""

    # blocking: A client of a service (``tarry serve``), with the methods of ``Client``: thread-safe, fork-safe, a context manager.
    #
    # ``url``        the address of the service; else ``TARRY_SERVICE_URL``, else http://127.0.0.1:7070
    # ``token``      a token of the service, if it requires one; else ``TARRY_TOKEN``
    # ``namespace``  by default that of the token; without a token, the ``--namespace`` of ``tarry serve``
    # ``redisson``   as for ``Client``; by default the version that the service was started with
    #
    # Its methods raise the errors that those of ``Client`` raise, and ``NotAllowed``. Methods that do not exist over HTTP raise
    # ``ServerUnfit``.

    @hide_others
    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        token: str | None = None,
        max_body: int = MAX_BODY,
        patience: Duration = PATIENCE,
        redisson: str | None = None,
        **words: Never,
    ) -> None:
        if words:
            refuse_others(AsyncHTTPClient.__init__, self, OF_HTTP_CLIENT, words=words)
        self.engine = HTTPEngine(
            HTTPClientConfig(ServiceAddress.find(url, namespace, token), max_body, patience, redisson)
        )
        self.namespace = namespace
        """The namespace of its topics and locks. ``None`` means that of the token."""

    @hide_others
    def lock(
        self,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        shared: bool = False,
        **words: Never,
    ) -> AsyncLock:
        """The lock of this name in the namespace: its ``state()``, and ``force_release()``. With ``shared=True`` it is the
        lock that Redisson calls ``getLock(name)``, the same in every namespace.

        A lock cannot be acquired over HTTP, because a holder must renew its lock, and a service would not notice the end of this
        process.
        """
        if words or name is MISSING:
            refuse_others(AsyncHTTPClient.lock, self, OF_LOCK, words=words)
        locks: Any = HTTPLocks(self.engine)
        return AsyncLock(
            lambda: locks, options=LockOptions(wait, lease), **server_lock(self.engine.config, name, shared=shared)
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
        """A guarded queue: a sorted set of values by their due times. Each verb is one atomic script, which the service
        calls.

        The options are those of ``Client.guarded_queue``, without ``guard``.
        """
        context, verbs = self.engine.config.guarded(name, guard, layout, type, max_lateness, on_late)
        return AsyncHTTPGuardedQueue(self.engine, context, verbs, on_late)

    async def keep_moving(self, *queues: str) -> None:  # noqa: ARG002  # as Client has it
        """Always raises ``ServerUnfit``, because a service moves the queues that it was started with, and those that have a waiting consumer."""
        raise not_supported("keep_moving")

    async def migrate_queue(
        self,
        queue: AsyncDelayedQueue[Any],
        to: AsyncTopic[Any] | str,
        *,
        dry_run: bool = False,
        redirect: bool = False,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Migrated:
        """Moves the elements of a queue that are not due yet into a topic of the same service, with their due times.

        ``dry_run`` only counts. The queue's codec must be one that is given by name, not your own. ``progress`` is called with the number of moved elements."""
        source, chosen = handle_of("queue", AsyncDelayedQueue, queue), handle_of("to", AsyncTopic, to, self.topic)
        place = self.engine.config.service
        return await self.engine.run(
            migration.migrate_queue(
                place,
                source,
                chosen,
                dry_run=dry_run,
                redirect=redirect,
                limit=checked_portion(limit),
                progress=progress,
            )
        )

    async def migrate(
        self,
        topic: AsyncTopic[T] | str,
        to: AsyncTopic[T],
        *,
        dry_run: bool = False,
        redirect: bool = False,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Migrated:
        """Moves the waiting jobs, the dead jobs and the schedules into another topic of the same service and namespace.

        As with ``Client``, you may interrupt it and call it again. ``dry_run`` only counts. ``progress`` is called with the
        number of moved jobs.
        """
        mine, there = handle_of("topic", AsyncTopic, topic, self.topic), handle_of("to", AsyncTopic, to)
        place = self.engine.config.service
        return await self.engine.run(
            migration.migrate(
                place, mine, there, dry_run=dry_run, redirect=redirect, limit=checked_portion(limit), progress=progress
            )
        )

    def map_cache(
        self,
        name: str,
        *,
        redisson: str | None = None,
        codec: str | Codec[Any] | None = None,
        key_codec: str | Codec[Any] | None = None,
        backend: Backend = "redisson",
        policy: Policy = "deadline",
    ) -> AsyncMapCache[Any, Any]:
        """The map that Redisson calls ``getMapCache(name)``, read-only: ``stats()``, ``size()``, its entries one after the
        other, ``get_with_ttl_only``, ``remaining_ttl``, ``contains_value``. Methods that would change it raise
        ``ServerUnfit``."""
        verbs = self.engine.config.map_cache(name, codec, key_codec, backend, redisson)
        return AsyncMapCache(self.engine, verbs, policy)
