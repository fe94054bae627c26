"""One run of a worker: its clients, its consumers, the renewal thread, and how they end.

consumers run ──▶ stopped · a consumer failed · nothing is due ──▶ no new jobs ──▶ grace period ──▶ the rest is given back
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.blocking.topic import Topic
from tarry.connections.background import failures
from tarry.errors import BadInput, ServerUnfit, Unavailable
from tarry.values import names
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.worker import log_lines
from tarry.worker import worker_clients as clients
from tarry.worker.consumers import Consumers
from tarry.worker.dispatch import target_for
from tarry.worker.handlers import QueueRoute
from tarry.worker.heartbeat import LONGEST_HOST, WorkerReports
from tarry.worker.idle_check import IdleCheck
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.process_pool import ProcessPool
from tarry.worker.registry import TopicRoute
from tarry.worker.renewal import Renewal
from tarry.worker.settler import Settler
from tarry.worker.slots import JobQuota, SlotPool
from tarry.worker.task_schedules import RETRY_S, ScheduleDeclarer
from tarry.worker.topic_consumer import TopicConsumer
from tarry.worker.unknown_tasks import wake_known

if TYPE_CHECKING:
    from tarry.values.durations import Duration
    from tarry.verbs.workers import WorkerMode
    from tarry.worker.liveness import Liveness
    from tarry.worker.queue_consumer import QueueConsumer
    from tarry.worker.task_schedules import TaskSchedule

logger = logging.getLogger("tarry.worker")


class RunnableWorker(Protocol):
    """The worker, as far as a run uses it: its settings, its handlers, and whom it calls."""

    name: str | None
    _module: str | None
    _holder: bytes
    _slots: int | None
    _ttr: Duration
    _grace_s: float
    _warn_blocked_after_s: float
    _unknown_tasks_die_after_us: int | None
    _max_jobs_per_child: int | None
    _release_on_disconnect: bool
    _is_child: bool
    _moved_queues: tuple[str, ...]
    _on_alive: Callable[[bool], None]
    _on_told_to_stop: Callable[[], None]

    @property
    def _has_stamps(self) -> bool: ...
    def _routes(self) -> list[TopicRoute]: ...
    def _queue_routes(self) -> list[QueueRoute]: ...
    def _schedules(self) -> list[TaskSchedule]: ...
    def stop(self) -> None: ...


class WorkerRun:
    """Made in the event loop that it runs in, and used once. ``until_idle``: it ends when nothing is due and nothing runs."""

    def __init__(self, worker: RunnableWorker, clients: clients.WorkerClients, *, until_idle: bool) -> None:
        routes, queues = worker._routes(), worker._queue_routes()
        if not routes and not queues:
            raise BadInput(
                "worker: it has no handler; decorate a function with @worker.on(topic), @worker.task or @worker.on_queue(queue)."
            )
        self._worker = worker
        self._awaited, self._blocking = clients.for_run()
        self._outage = Outage()
        self._until_idle = until_idle
        self._unfit = ""
        """Why this process is not fit to work, once it is not."""
        worker._holder = worker._holder or _new_holder()
        slot_pool = None if worker._slots is None else SlotPool(worker._slots)
        self._quota: JobQuota | None = None
        if worker._is_child and worker._max_jobs_per_child is not None:
            self._quota = JobQuota(worker._max_jobs_per_child)
        self._consumers = [self._make_consumer(route, slot_pool) for route in routes]
        log_lines.log_topics({one.topic.name: one.slots for one in self._consumers}, worker._slots)
        active: dict[TopicConsumer, None] = {}
        for consumer in self._consumers:
            consumer.active = active
        self._tasks = {route.topic: frozenset(route.tasks) for route in routes if route.tasks}
        self._queue_consumers = [self._make_queue_consumer(route) for route in queues]
        if until_idle:
            self._check_idle()
        self._renewal = self._make_renewal(routes)
        self._liveness = self._make_liveness(routes)
        self._declarer = ScheduleDeclarer(
            [consumer.topic for consumer in self._consumers], worker._schedules(), self._outage
        )

    def _make_consumer(self, route: TopicRoute, slot_pool: SlotPool | None) -> TopicConsumer:
        kind: Any = route.type
        topic: AsyncTopic[Any] = self._awaited.topic(route.topic, type=kind)
        blocking: Topic[Any] = self._blocking.topic(route.topic, type=kind)
        topic.verbs.holder = blocking.verbs.holder = self._worker._holder
        settler = Settler(topic, blocking, self._outage)
        slots = min(route.slots, self._worker._slots or route.slots)
        processes = None
        if any(target.process is not None for target in route.targets):
            processes = ProcessPool(
                self._blocking,
                min(slots, route.processes or slots),
                self._worker.name,
                self._worker._module if self._worker._has_stamps else None,
                self._worker._max_jobs_per_child,
            )
        consumer = TopicConsumer(
            settler,
            target_for(route, settler, processes, self._worker._unknown_tasks_die_after_us),
            slots=slots,
            most_in_hand=MOST_JOBS if route.takes_ahead and slot_pool is None else slots,
            processes=processes,
            weight=route.weight,
            ttr=route.ttr_in(self._worker._ttr),
            outage=self._outage,
            slot_pool=slot_pool,
        )
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

    def _make_renewal(self, routes: list[TopicRoute]) -> Renewal:
        client = self._renewal_client = clients.make_blocking(self._awaited, patience=1)
        handlers = {route.topic: route.targets for route in routes}
        reports = WorkerReports(client, self._worker._holder, self._consumers, handlers, self._worker._slots)
        renewal = Renewal(client, self._consumers, self._outage, reports, self._worker._warn_blocked_after_s)
        renewal.on_alive = self._worker._on_alive
        return renewal

    def _make_liveness(self, routes: list[TopicRoute]) -> Liveness | None:
        client = self._renewal_client
        if (
            not routes or not self._worker._release_on_disconnect or not client.engine.keeps_maps
        ):  # in imaginary time nothing happens by itself
            return None
        from tarry.worker.liveness import Liveness

        consumers = self._consumers
        topics = [route.topic for route in routes]
        return Liveness(
            client,
            self._awaited,
            self._worker._holder,
            topics,
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
        consumers = Consumers([*self._consumers, *self._queue_consumers])
        self._renewal.on_asked = partial(self._asked, consumers, stopping)
        if self._liveness is not None:
            self._liveness.on_uncertain = consumers.hold_back
            self._renewal.on_popped = self._liveness.popped
        used_up = asyncio.ensure_future(self._quota.used_up.wait()) if self._quota is not None else stopped
        try:
            await self._keep_moving(stopped)
            await consumers.wait_until_done(stopped, used_up)
            if used_up.done() and not stopped.done():
                self._renewal.announce_stop()
                await consumers.take_no_more(stopped)
            self._renewal.announce_stop()
            return await consumers.stop(self._worker._grace_s, stop_now)
        finally:
            stopped.cancel()
            used_up.cancel()
            waking.cancel()
            declaration.cancel()
            consumers.cancel()
            for consumer in self._consumers:
                await consumer.end_processes()
            if self._liveness is not None:
                await self._liveness.stop()
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
            self._worker._on_told_to_stop()
            self._worker.stop()

    async def _keep_moving(self, stopped: asyncio.Future[Any]) -> None:
        """Starts the movers of queues that consumers in Java wait for. Retries while the server is unavailable."""
        if not self._worker._moved_queues:
            return
        health = ServerHealth(self._outage)
        while not stopped.done():
            try:
                await self._awaited.keep_moving(*self._worker._moved_queues)
                health.succeeded()
                return
            except Unavailable as fault:
                health.failed(fault)
                await asyncio.wait({stopped}, timeout=RETRY_S)


def _new_holder() -> bytes:
    return f"{socket.gethostname()[:LONGEST_HOST]}:{os.getpid()}:".encode() + names.random_word(os.urandom)
