# Made from src/tarry/clients/http/awaited.py by tools/blocking.py: change that file, then `make blocking`.
"""``tarry.HTTPClient``: a client of a service, blocking. For machines that can reach only a service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, TypeVar

from tarry.clients.blocking.base_client import BaseClient, handle_of
from tarry.clients.blocking.guarded_queue import Guard, GuardedQueue
from tarry.clients.blocking.locks import Lock
from tarry.clients.blocking.topic import Topic
from tarry.clients.config import MAX_BODY, PATIENCE, checked_portion
from tarry.clients.http.blocking_engine import HTTPEngine, HTTPGuardedQueue, HTTPLocks
from tarry.clients.http.config import HTTPClientConfig
from tarry.clients.http.requests import ServiceAddress
from tarry.clients.http.verbs import migration_requests as migration
from tarry.clients.http.verbs.unsupported import not_supported
from tarry.clients.lock_options import LockOptions, server_lock
from tarry.clients.redisson.blocking.delayed_queue import DelayedQueue
from tarry.clients.redisson.blocking.mapcache import MapCache
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
class HTTPClient(BaseClient[HTTPEngine]):
    """A client of a service (``tarry serve``), with the methods of ``Client``: thread-safe, fork-safe, a context manager.

    ``url``        the address of the service; else ``TARRY_SERVICE_URL``, else http://127.0.0.1:7070
    ``token``      a token of the service, if it requires one; else ``TARRY_TOKEN``
    ``namespace``  by default that of the token; without a token, the ``--namespace`` of ``tarry serve``
    ``redisson``   as for ``Client``; by default the version that the service was started with

    Its methods raise the errors that those of ``Client`` raise, and ``NotAllowed``. Methods that do not exist over HTTP raise
    ``ServerUnfit``.
    """

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
            refuse_others(HTTPClient.__init__, self, OF_HTTP_CLIENT, words=words)
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
    ) -> Lock:
        """The lock of this name in the namespace: its ``state()``, and ``force_release()``. With ``shared=True`` it is the
        lock that Redisson calls ``getLock(name)``, the same in every namespace.

        A lock cannot be acquired over HTTP, because a holder must renew its lock, and a service would not notice the end of this
        process.
        """
        if words or name is MISSING:
            refuse_others(HTTPClient.lock, self, OF_LOCK, words=words)
        locks: Any = HTTPLocks(self.engine)
        return Lock(
            lambda: locks, options=LockOptions(wait, lease), **server_lock(self.engine.config, name, shared=shared)
        )

    def guarded_queue(
        self,
        name: str,
        *,
        guard: Guard | None = None,
        layout: str = "tarry",
        type: Any = None,
        max_lateness: Duration | None = None,
        on_late: Callable[[timedelta], object] | None = None,
    ) -> GuardedQueue[Any]:
        """A guarded queue: a sorted set of values by their due times. Each verb is one atomic script, which the service
        calls.

        The options are those of ``Client.guarded_queue``, without ``guard``.
        """
        context, verbs = self.engine.config.guarded(name, guard, layout, type, max_lateness, on_late)
        return HTTPGuardedQueue(self.engine, context, verbs, on_late)

    def keep_moving(self, *queues: str) -> None:  # noqa: ARG002  # as Client has it
        """Always raises ``ServerUnfit``, because a service moves the queues that it was started with, and those that have a waiting consumer."""
        raise not_supported("keep_moving")

    def migrate_queue(
        self,
        queue: DelayedQueue[Any],
        to: Topic[Any] | str,
        *,
        dry_run: bool = False,
        redirect: bool = False,
        limit: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Migrated:
        """Moves the elements of a queue that are not due yet into a topic of the same service, with their due times.

        ``dry_run`` only counts. The queue's codec must be one that is given by name, not your own. ``progress`` is called with the number of moved elements."""
        source, chosen = handle_of("queue", DelayedQueue, queue), handle_of("to", Topic, to, self.topic)
        place = self.engine.config.service
        return self.engine.run(
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

    def migrate(
        self,
        topic: Topic[T] | str,
        to: Topic[T],
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
        mine, there = handle_of("topic", Topic, topic, self.topic), handle_of("to", Topic, to)
        place = self.engine.config.service
        return self.engine.run(
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
    ) -> MapCache[Any, Any]:
        """The map that Redisson calls ``getMapCache(name)``, read-only: ``stats()``, ``size()``, its entries one after the
        other, ``get_with_ttl_only``, ``remaining_ttl``, ``contains_value``. Methods that would change it raise
        ``ServerUnfit``."""
        verbs = self.engine.config.map_cache(name, codec, key_codec, backend, redisson)
        return MapCache(self.engine, verbs, policy)
