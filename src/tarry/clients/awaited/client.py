"""``tarry.AsyncClient``: delayed jobs, awaited."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never, TypeVar

from tarry.clients.awaited.base_client import AsyncBaseClient, handle_of
from tarry.clients.awaited.engine import Engine
from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.config import MAX_BODY, PATIENCE, ClientConfig, NameMapper, checked_portion
from tarry.values.durations import Duration
from tarry.values.other_words import (
    MISSING,
    OF_CLIENT,
    OF_LOCK,
    hide_others,
    own_methods,
    refuse_other_with,
    refuse_others,
)
from tarry.verbs.codecs import Codec

if TYPE_CHECKING:  # the rest is imported by the verbs that need it: most clients have topics only
    from tarry.clients.awaited.guarded_queue import AsyncGuard, AsyncGuardedQueue
    from tarry.clients.awaited.locks import AsyncLock
    from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue
    from tarry.clients.redisson.awaited.mapcache import AsyncMapCache
    from tarry.clients.redisson.map_caches import Policy
    from tarry.verbs.jobs.topic_migration import Migrated
    from tarry.verbs.redisson.mapcache.map_values import Backend

T = TypeVar("T")


@refuse_other_with
@own_methods
class AsyncClient(AsyncBaseClient[Engine]):
    """The same as ``Client``, awaited. Calls that are made at the same time are sent in one pipeline, and adds to one topic in
    one script.

    You may cancel any call, or let it time out, without losing a job. If a cancelled pop was sent already, its answer is still
    read, and its jobs are released; these attempts do not count.
    """

    # blocking: Delayed jobs on one server. Thread-safe, fork-safe, a context manager; connects at the first call.
    #
    # ``url``        ``redis://``, ``rediss://``, ``unix://``, ``redis+cluster://``, ``embedded://…``; else ``TARRY_URL``,
    #                else the embedded server of this user
    # ``namespace``  keeps applications apart on one server; else ``TARRY_NAMESPACE``, else ``default``. Objects that are shared with
    #                Java are the same in every namespace: delayed queues, blocking queues, map caches, ``lock(shared=True)``, and guarded
    #                queues with ``layout="java"``
    # ``max_body``   how many bytes a body may have
    # ``patience``   how long a request whose answer was lost is repeated, before ``Unavailable`` is raised. A call with ``wait`` takes
    #                at most the sum of ``wait`` and ``patience``, whatever the server does
    # ``name_mapper``  a prefix, or a function that maps names, if the Java applications change names with a ``NameMapper``
    # ``redisson``   the version of Redisson in the Java applications that share queues and maps, such as ``"3.15.1"``; it determines
    #                codecs and formats; else ``TARRY_REDISSON``

    @hide_others
    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        max_body: int = MAX_BODY,
        patience: Duration = PATIENCE,
        name_mapper: NameMapper = None,
        redisson: str | None = None,
        **words: Never,
    ) -> None:
        if words:
            refuse_others(AsyncClient.__init__, self, OF_CLIENT, words=words)
        self.engine = Engine(ClientConfig(url, namespace, max_body, patience, name_mapper, redisson))
        self.namespace: str = self.engine.config.namespace
        """The namespace of its topics, locks and guarded queues."""

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        """The lock of this name in the namespace. Acquiring it returns a grant with a fencing token.

        ``wait``  how long to wait for it; by default forever, because a block must not begin without its lock
        ``lease``  the time after which a grant ends; with ``None`` it lasts 30 s, and is renewed every 10 s as long as this process lives
        ``shared``  with ``True`` it is the lock that Redisson calls ``getLock(name)``, the same in every namespace

        Waiters are not served in order.
        """
        if words or name is MISSING:
            refuse_others(AsyncClient.lock, self, OF_LOCK, words=words)
        from tarry.clients.awaited.locks import AsyncLock, RedisLocks
        from tarry.clients.lock_options import LockOptions, server_lock

        return AsyncLock(
            lambda: self.engine.shared_part(RedisLocks),
            options=LockOptions(wait, lease),
            **server_lock(self.engine.config, name, shared=shared),
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
        """The guarded queue of this name in the namespace: a sorted set of values by their due times.

        ``type``  what its values are, as for a topic
        ``guard``  for a server on which scripts are disabled: a lock of this client or of ``tarry.zookeeper``. Each call then sends plain commands while
                 it holds this lock; a call that has lost the lock is refused by the fencing token. Without a guard each call is one atomic script
        ``layout``  with ``"java"`` the queue is the sorted set ``d_q_p:NAME``, which is shared with Java and the same in every namespace
        ``max_lateness``  how late the first item may be. If it is later, ``poll`` calls ``on_late(lateness)``, or raises ``FallenBehind`` if there is no ``on_late``

        A polled item is out of the queue, and lost if its consumer dies. A topic keeps a job until it is finished. So use a
        topic, unless Java reads the values, or the server runs no scripts.
        """
        from tarry.clients.awaited.guarded_queue import AsyncGuardedQueue
        from tarry.clients.guarded_queues import guarded_context

        context = guarded_context(self.engine.config, name, layout, type, max_lateness, on_late)
        return AsyncGuardedQueue(self.engine, context, guard, on_late)

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    async def keep_moving(self, *queues: str) -> None:
        """Moves the due elements of these queues as long as this client is open. This is for queues that no tarry client consumes at
        the moment. A client that waits in ``take``, ``poll`` or ``subscribe`` moves the due elements anyway.
        """
        await self.engine.keep_moving([self.engine.config.queue_keys(name) for name in queues])

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
        """Moves the elements of a queue that are not due yet into a topic, with their due times.

        You may interrupt the move and call it again, even while other clients offer and take. The id of each job is made from its
        element.

        ``dry_run``  only counts
        ``limit``  about how many elements one call moves; call again for the rest
        ``progress``  a function that is called with the number of moved elements
        ``redirect``  moves elements to this topic although an interrupted move to another one is not complete. Use it only if that topic is gone for good

        Raises ``BadInput`` if a move to another topic is not complete.
        """
        from tarry.clients.config import server_verbs
        from tarry.clients.migration import count_queue, migrate_queue
        from tarry.clients.redisson.awaited.delayed_queue import AsyncDelayedQueue

        source, chosen = handle_of("queue", AsyncDelayedQueue, queue), handle_of("to", AsyncTopic, to, self.topic)
        self.engine.config.refuse_others("migrate_queue", source, chosen)
        if dry_run:
            return await self.engine.run(count_queue(source.verbs.context, server_verbs(chosen)))
        await self.engine.register_topic(chosen.name)
        return await self.engine.run(
            migrate_queue(
                source.verbs.context, server_verbs(chosen), progress, checked_portion(limit), redirect=redirect
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
        """Moves the waiting jobs, the dead jobs and the schedules of a topic into another one, which may be on another
        server.

        Due times, attempts, headers and errors are kept, and options of ``configure`` that the target does not have are
        copied. Jobs and schedules whose id exists in the target stay in the old topic. Reserved jobs stay there until they are
        settled, and finished jobs for as long as they are kept. You may interrupt the move and call it again, also under load.
        Before the move, let producers add to the new topic.

        ``dry_run``  only counts
        ``limit``  about how many jobs one call moves; call again for the rest
        ``progress``  a function that is called with the number of moved jobs
        ``redirect``  moves jobs to this target although an interrupted move to another topic is not complete. Use it only if that topic is gone for good

        Raises ``BadInput`` if both topics are the same, if the target has partitions and the old topic has a limit that partitions
        do not allow, and if a move to another topic is not complete.
        """
        from tarry.clients.awaited.flow_runner import run_flow
        from tarry.clients.config import server_verbs
        from tarry.verbs.jobs import topic_migration as migration

        mine: Any = handle_of("topic", AsyncTopic, topic, self.topic)
        to = handle_of("to", AsyncTopic, to)
        self.engine.config.refuse_others("migrate", mine, to)
        same = mine.engine.config.address == to.engine.config.address
        migration.refuse_same_topic(same, mine.verbs.context, to.verbs.context)
        here, there = (
            await self.engine.run(server_verbs(mine).partitions()),
            await to.engine.run(server_verbs(to).partitions()),
        )
        if not dry_run:
            await to.engine.register_topic(to.name)
        engines = (mine.engine, to.engine)
        steps = migration.migrate(
            here, there, dry_run=dry_run, progress=progress, limit=checked_portion(limit), redirect=redirect
        )
        return await run_flow(steps, lambda step: engines[step[0]].run(step[1]), faults=())

    # ── maps shared with Java ────────────────────────────────────────────────────────────────────────────────────────

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
        """The map that Redisson calls ``getMapCache(name)``, the same in every namespace. Each entry has a time to live and
        an idle time of its own.

        ``redisson``, ``codec``  as for a delayed queue
        ``key_codec``  the codec of the keys, if keys and values have different codecs
        ``backend``  ``"redisson-native"`` is Redisson's ``getMapCacheNative(name)``, also the same in every namespace: entries have only a time to live, and
                 the server itself removes them (Valkey 9, Redis 7.4). ``"native"`` is such a map of this client's namespace. It needs no version of
                 Redisson, because no Java application shares it
        ``policy``  when this object frees the memory of expired entries, which nobody can read any more. ``"deadline"``: as soon as they expire;
                 ``"adaptive"`` or an ``AdaptivePolicy``: by Redisson's rule; ``None``: never
        """
        from tarry.clients.redisson.awaited.mapcache import AsyncMapCache
        from tarry.clients.redisson.map_caches import map_verbs

        verbs = map_verbs(self.engine.config, name, codec, key_codec, backend, redisson)
        return AsyncMapCache(self.engine, verbs, policy)
