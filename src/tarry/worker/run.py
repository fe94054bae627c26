"""One run of a worker: its clients, its consumers, the renewal thread, and how they end.

consumers run ──▶ stopped · a consumer failed · nothing is due ──▶ no new jobs ──▶ grace period ──▶ the rest is released
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.blocking.job import Job
from tarry.clients.blocking.topic import Topic
from tarry.connections.background import failures, supervise_task
from tarry.errors import BadInput, ServerUnfit, Unavailable
from tarry.values import names
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.worker import log_lines
from tarry.worker import worker_clients as clients
from tarry.worker.consumers import Consumers
from tarry.worker.discovery import TopicDiscovery
from tarry.worker.dispatch import target_for
from tarry.worker.handlers import QueueRoute
from tarry.worker.heartbeat import LONGEST_HOST, WorkerReports
from tarry.worker.idle_check import IdleCheck
from tarry.worker.lost_pops import LostPops
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.process_pool import ProcessPool
from tarry.worker.registry import Registrations, TopicRoute
from tarry.worker.renewal import Renewal
from tarry.worker.settler import Settler
from tarry.worker.slots import JobQuota, SlotGroup, SlotPool
from tarry.worker.targets import skipped_middleware
from tarry.worker.task_schedules import RETRY_S, ScheduleDeclarer
from tarry.worker.threads import ThreadPool
from tarry.worker.topic_consumer import TopicConsumer
from tarry.worker.unknown_tasks import wake_known

if TYPE_CHECKING:
    from tarry.values.durations import Duration
    from tarry.verbs.workers import WorkerMode
    from tarry.worker.batches import JobBatch
    from tarry.worker.liveness import Liveness
    from tarry.worker.queue_consumer import QueueConsumer
    from tarry.worker.worker_clients import WorkerClients

logger = logging.getLogger("tarry.worker")


@dataclass(slots=True)
class WorkerSettings:
    """The arguments of a worker, and who calls it; for the modules of the worker."""

    clients: WorkerClients
    module: str | None
    """Where it was made: a child process with functions of an included registry imports it, for the stamps."""
    slots: int | None
    ttr: Duration
    grace_s: float
    warn_blocked_after_s: float
    unknown_tasks_die_after_us: int | None
    max_jobs_per_child: int | None
    release_on_disconnect: bool
    only: frozenset[str] | None = None
    """The topics and queues that a command line names; the others it leaves."""
    moved_queues: tuple[str, ...] = ()
    holder: bytes = b""
    """The holder's name in its jobs' reservations: host, process and a random word, made when it starts."""
    is_child: bool = False
    """Whether a parent process stops it."""
    on_alive: Callable[[bool], None] = lambda worked: None
    """Called by the renewal thread now and then, with whether the server has ever answered. A child reports to its parent."""
    on_told_to_stop: Callable[[], None] = lambda: None
    """Called before it stops because somebody asked it to, over the server. A child tells its parent, which starts no other."""


class RunnableWorker(Protocol):
    """The worker, as far as a run uses it: its settings, its handlers, and whom it calls."""

    name: str | None
    inner: WorkerSettings

    @property
    def registered(self) -> Registrations: ...
    def stop(self) -> None: ...


@dataclass(slots=True)
class _Shared:
    """Shared by topics: slots with all others of the worker, or of its pattern; with those of its pattern threads and processes, too."""

    slot_pool: SlotPool | None
    processes: ProcessPool | None
    group: SlotGroup | None = None
    threads: ThreadPool[Any] | None = None
    consumers: dict[str, TopicConsumer] = field(default_factory=dict)

    def thread_ended(self, ran: Job[Any] | JobBatch, fault: BaseException | None) -> None:
        self.consumers[ran.topic].thread_ended(ran, fault)


class WorkerRun:
    """Made in the event loop that it runs in, and used once. ``until_idle``: it ends when nothing is due and nothing runs."""

    def __init__(self, worker: RunnableWorker, clients: WorkerClients, *, until_idle: bool) -> None:
        routes, queues = worker.registered.routes(), worker.registered.queue_routes()
        if not routes and not queues:
            raise BadInput(
                "worker: it has no handler; decorate a function with @worker.on(topic), @worker.task or @worker.on_queue(queue)."
            )
        for route in routes:
            if route.handler is not None and (skipped := skipped_middleware(route.handler)):
                log_lines.log_skipped(route.topic, route.handler.name, skipped)
        self._worker = worker
        self._awaited, self._blocking = clients.for_run()
        self._outage = Outage()
        self._until_idle = until_idle
        self._unfit = ""
        """Why this process is not fit to work, once it is not."""
        worker.inner.holder = worker.inner.holder or _new_holder()
        self._slot_pool = None if worker.inner.slots is None else SlotPool(worker.inner.slots)
        self._quota: JobQuota | None = None
        if worker.inner.is_child and worker.inner.max_jobs_per_child is not None:
            self._quota = JobQuota(worker.inner.max_jobs_per_child)
        self._active: dict[TopicConsumer, None] = {}
        fixed = [route for route in routes if not route.is_pattern]
        self._topics = [route.topic for route in fixed]
        self._handlers = {route.topic: route.targets for route in fixed}
        self._consumers = [self._make_consumer(route, self._shared_by(route)) for route in fixed]
        self._patterns = {route.topic: (route, self._shared_by(route)) for route in routes if route.is_pattern}
        log_lines.log_topics({one.topic.name: one.slots for one in self._consumers}, worker.inner.slots)
        self._tasks = {route.topic: frozenset(route.tasks) for route in fixed if route.tasks}
        for route, _ in self._patterns.values():
            logger.info("▶ topics that match %s, %d slots together", route.topic, self._slots_of(route))
        self._queue_consumers = [self._make_queue_consumer(route) for route in queues]
        self._renewal = self._make_renewal(worker.inner.slots or sum(route.slots for route in routes))
        self._lost_pops: LostPops | None = None
        if self._renewal_client.engine.keeps_maps:  # in imaginary time nothing happens by itself
            self._lost_pops = LostPops(self._awaited, worker.inner.holder)
        self._liveness = self._make_liveness(has_topics=bool(routes))
        self._declarer = ScheduleDeclarer(
            [consumer.topic for consumer in self._consumers], worker.registered.schedules(), self._outage
        )
        self._discovery: TopicDiscovery | None = None
        if self._patterns:
            self._discovery = TopicDiscovery(
                self._awaited, list(self._patterns), self._topics, self._take_up, self._outage
            )
        self._running: Consumers | None = None

    def _slots_of(self, route: TopicRoute) -> int:
        return min(route.slots, self._worker.inner.slots or route.slots)

    def _shared_by(self, route: TopicRoute) -> _Shared:
        """Makes it for the topics of a route: one, or all that match a pattern."""
        slots, processes = self._slots_of(route), None
        if any(target.process is not None for target in route.targets):
            processes = ProcessPool(
                self._blocking,
                min(slots, route.processes or slots),
                self._worker.name,
                self._worker.inner.module if self._worker.registered.has_stamps else None,
                self._worker.inner.max_jobs_per_child,
            )
        if not route.is_pattern:
            return _Shared(self._slot_pool, processes)
        shared = _Shared(self._slot_pool or SlotPool(slots), processes)
        if self._slot_pool is not None and not route.takes_ahead:
            shared.group = SlotGroup(slots)
        shared.threads = ThreadPool(route.topic, slots, shared.thread_ended)
        return shared

    def _take_up(self, found: dict[str, str]) -> None:
        """Consumes new topics, each given with the pattern that it matches."""
        new: list[TopicConsumer] = []
        for topic, pattern in found.items():
            route, shared = self._patterns[pattern]
            self._handlers[topic] = route.targets  # first: the thread of the reports reads both
            self._topics.append(topic)
            consumer = shared.consumers[topic] = self._make_consumer(
                replace(route, topic=topic, is_pattern=False), shared
            )
            new.append(consumer)
            self._consumers.append(consumer)
            self._renewal.watch(consumer)
            if self._running is not None:
                self._running.add(consumer, start=not self._until_idle)
        most = max(self._slots_of(self._patterns[pattern][0]) for pattern in found.values())
        log_lines.log_topics({one.topic.name: one.slots for one in new}, self._worker.inner.slots or most)
        if self._liveness is not None:
            self._liveness.topics_changed()

    def _make_consumer(self, route: TopicRoute, shared: _Shared) -> TopicConsumer:
        kind: Any = route.type
        topic: AsyncTopic[Any] = self._awaited.topic(route.topic, type=kind)
        blocking: Topic[Any] = self._blocking.topic(route.topic, type=kind)
        topic.verbs.holder = blocking.verbs.holder = self._worker.inner.holder
        settler = Settler(topic, blocking, self._outage)
        slots, processes = self._slots_of(route), shared.processes
        consumer = _consumer_of(route)(
            settler,
            target_for(route, settler, processes, self._worker.inner.unknown_tasks_die_after_us),
            slots=slots,
            most_in_hand=MOST_JOBS if route.takes_ahead and shared.slot_pool is None else slots,
            processes=processes,
            weight=route.weight,
            ttr=route.ttr_in(self._worker.inner.ttr),
            outage=self._outage,
            slot_pool=shared.slot_pool,
            group=shared.group,
            threads=shared.threads,
        )
        consumer.active = self._active
        consumer.key_limits = route.key_limits
        if processes is None:  # the others run their jobs in children of their own
            consumer.quota = self._quota
        return consumer

    def _make_queue_consumer(self, route: QueueRoute) -> QueueConsumer:
        from tarry.worker.queue_consumer import QueueConsumer

        queue = self._awaited.blocking_queue(route.queue, redisson=route.redisson, codec=route.codec)
        queue.verbs.context.require_codec()
        logger.info("▶ queue %s, %d slots", route.queue, route.slots)
        return QueueConsumer(route, queue, self._outage)

    def _check_idle(self) -> None:
        """Lets the consumers end when nothing is due and nothing runs."""
        from tarry.clients.awaited.wait_connections import WaitConnections

        engine = self._awaited.engine
        is_imaginary = not engine.keeps_maps  # a wait would make the time pass
        end_waits = None if is_imaginary else engine.shared_part(WaitConnections).end_waits
        IdleCheck([*self._consumers, *self._queue_consumers], end_waits)

    def _make_renewal(self, slots: int) -> Renewal:
        client = self._renewal_client = clients.make_blocking(self._awaited, patience=1)
        reports = WorkerReports(client, self._worker.inner.holder, self._consumers, self._handlers, slots)
        renewal = Renewal(client, self._consumers, self._outage, reports, self._worker.inner.warn_blocked_after_s)
        renewal.on_alive = self._worker.inner.on_alive
        return renewal

    def _make_liveness(self, *, has_topics: bool) -> Liveness | None:
        client = self._renewal_client
        if (
            not has_topics or not self._worker.inner.release_on_disconnect or not client.engine.keeps_maps
        ):  # in imaginary time nothing happens by itself
            return None
        from tarry.worker.liveness import Liveness

        consumers = self._consumers
        return Liveness(
            client,
            self._awaited,
            self._worker.inner.holder,
            self._topics,
            lambda: any(one.running for one in consumers),
            self._outage,
        )

    async def execute(self, stopping: asyncio.Event, stop_now: asyncio.Event) -> int:
        """Runs until it is stopped; returns how many running jobs had to be released."""
        loop = asyncio.get_running_loop()

        def on_failure(_work: str, unfit: str) -> None:
            if unfit:
                with suppress(RuntimeError):  # the loop is closed: nothing is left to end
                    loop.call_soon_threadsafe(self._end_as_unfit, stopping, unfit)

        end_listening = failures.listen(on_failure)
        try:
            with self._outage.logs_retries_of(self._awaited.engine.config.address.redacted):
                cut_off = await self._execute(stopping, stop_now)
        finally:
            end_listening()
        if self._unfit:
            raise ServerUnfit(self._unfit)
        return cut_off

    def _end_as_unfit(self, stopping: asyncio.Event, why: str) -> None:
        """Work in the background fails again and again: it stops as after SIGTERM, and ends with an error that its supervisor sees."""
        self._unfit = why
        if not stopping.is_set():
            logger.error("✗ The worker stops, because its process is not fit to work: %s", why)
            self._worker.stop()

    async def _execute(self, stopping: asyncio.Event, stop_now: asyncio.Event) -> int:
        if self._until_idle:
            await self._declarer.declare_once()
            await self._wake_known()
        stopped = asyncio.ensure_future(stopping.wait())
        self._renewal.start()
        if self._liveness is not None:
            self._liveness.start()
        waking = asyncio.ensure_future(self._wake_known()) if not self._until_idle else stopped
        if waking is not stopped:
            failures.watch_task("tarry unknown tasks", waking)
        declaration = asyncio.ensure_future(self._declarer.run(declared=self._until_idle))
        if self._discovery is not None and self._until_idle:
            await self._look_for_topics(stopped)
        if self._until_idle:
            self._check_idle()
        consumers = self._running = Consumers(
            [*self._consumers, *self._queue_consumers],
            ready=None if self._liveness is None else self._liveness.wait_until_known,
            ends_when_idle=self._until_idle,
        )
        finding: asyncio.Future[Any] = stopped
        if self._discovery is not None and not self._until_idle:
            finding = asyncio.ensure_future(supervise_task("tarry topics", self._discovery.run))
        self._renewal.on_asked = partial(self._asked, consumers, stopping)
        if self._liveness is not None:
            self._liveness.on_uncertain = consumers.hold_back
            self._renewal.on_popped = self._liveness.popped
        used_up = asyncio.ensure_future(self._quota.used_up.wait()) if self._quota is not None else stopped
        try:
            await self._keep_moving(stopped)
            await consumers.wait_until_done(stopped, used_up)
            while self._until_idle and not consumers.any_failed() and await self._look_for_topics(stopped, used_up):
                self._check_idle()
                consumers.start_again()
                await consumers.wait_until_done(stopped, used_up)
            if used_up.done() and not stopped.done():
                self._renewal.announce_stop()
                await consumers.take_no_more(stopped)
            self._renewal.announce_stop()
            return await consumers.stop(self._worker.inner.grace_s, stop_now)
        except asyncio.CancelledError:
            stop_now.set()
            await self._stop_cancelled(consumers, stop_now)
            raise
        finally:
            stopped.cancel()
            used_up.cancel()
            waking.cancel()
            declaration.cancel()
            finding.cancel()
            consumers.cancel()
            for consumer in self._consumers:
                await consumer.end_processes()
            await self._close()

    async def _stop_cancelled(self, consumers: Consumers, stop_now: asyncio.Event) -> None:
        """The run was cancelled: its jobs go back as after a second signal, without a period of grace."""
        with suppress(Exception):  # the caller waits for the cancellation, and the log has said what is wrong
            self._renewal.announce_stop()
            await consumers.stop(0, stop_now)

    async def _close(self) -> None:
        if self._liveness is not None:
            await self._liveness.stop()
        if self._lost_pops is not None:
            await self._lost_pops.stop()
        await self._renewal.stop()
        await self._awaited.close()
        self._blocking.close()

    async def _wake_known(self) -> None:
        """The jobs of its tasks that wait because no worker knew them are due now."""
        topics = {consumer.topic.name: consumer.topic for consumer in self._consumers}
        for topic, tasks in self._tasks.items():
            await wake_known(topics[topic], tasks)

    def _asked(self, consumers: Consumers, stopping: asyncio.Event, mode: WorkerMode) -> None:
        """Somebody asked it to take a mode (``set_worker_mode``)."""
        if mode != "stop":
            consumers.be_quiet(mode == "quiet")
        elif not stopping.is_set():  # a second call would end the grace period
            logger.info("■ it was asked to stop")
            self._worker.inner.on_told_to_stop()
            self._worker.stop()

    async def _look_for_topics(self, *stopped: asyncio.Future[Any]) -> bool:
        """Whether there are new topics of its patterns. Retries while the server is unavailable."""
        health = ServerHealth(self._outage)
        while self._discovery is not None and not any(one.done() for one in stopped):
            try:
                found = await self._discovery.look()
            except Unavailable as fault:
                health.failed(fault)
                await asyncio.wait({*stopped}, timeout=RETRY_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                health.succeeded()
                return found
        return False

    async def _keep_moving(self, stopped: asyncio.Future[Any]) -> None:
        """Starts the movers of queues that consumers in Java wait for. Retries while the server is unavailable."""
        if not self._worker.inner.moved_queues:
            return
        health = ServerHealth(self._outage)
        while not stopped.done():
            try:
                await self._awaited.keep_moving(*self._worker.inner.moved_queues)
                health.succeeded()
                return
            except Unavailable as fault:
                health.failed(fault)
                await asyncio.wait({stopped}, timeout=RETRY_S)


def _consumer_of(route: TopicRoute) -> type[TopicConsumer]:
    if route.batching is None:
        return TopicConsumer
    from tarry.worker.batch_consumer import BatchConsumer

    return BatchConsumer


def _new_holder() -> bytes:
    return f"{socket.gethostname()[:LONGEST_HOST]}:{os.getpid()}:".encode() + names.random_word(os.urandom)
