"""The relay: publishes what is due.

    pop a few ──▶ publish one ──▶ finish it ──▶ publish the next …

One after another, so that a crash repeats one message at most. While the broker does not answer nothing is popped, and what
was popped is released. A relay has a connection of its own: a lock of Celery's pools that its thread holds while the worker
forks would stay locked in the child.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, TypeVar

from celery import bootsteps

from tarry import AsyncJob, AsyncTopic
from tarry.celery.acceptance import MessageRefused, UnknownQueue, accepted, known_queues
from tarry.celery.delayed_messages import ETA, TTR_S, MessageCodec, WaitingMessage, seconds_until, waiting_tasks
from tarry.connections.background import supervise_task
from tarry.core.patience import RetryDelay
from tarry.errors import StaleReceipt, TarryError

BATCH = 32
"""So many messages wait for ``TTR_S`` when a relay is killed; more would save calls."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""Back-off while a server does not answer."""
Job = AsyncJob[WaitingMessage]
Topic = AsyncTopic[WaitingMessage]
T = TypeVar("T")
log = logging.getLogger("tarry.celery")


class BrokerAway(ConnectionError):
    """No connection to the broker can be had just now."""


class Relay:
    """Publishes an app's waiting tasks when they are due, until ``stop``. Any number of relays share the work."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.waiting = waiting_tasks(app)
        self.published = 0
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_early = False
        self._connection: Any = None
        self._producer: Any = None

    def stop(self) -> None:
        """Ends ``run`` after the message that is being published. May be called from any thread."""
        self._stop_early = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self) -> None:
        """Works until ``stop``."""
        self._loop = asyncio.get_running_loop()
        if self._stop_early:
            return
        await supervise_task("tarry-relay", self._work, self._pause)
        self._disconnect()

    async def _pause(self, seconds: float) -> bool:
        """Returns whether it was stopped."""
        await self._unless_stopped(asyncio.sleep(seconds))
        return self._stopping.is_set()

    async def _work(self) -> None:
        async with self.waiting.async_client() as client:
            topic = client.topic(self.waiting.name, type=MessageCodec())
            back_off = RetryDelay(FIRST_S, LONGEST_S)
            while not self._stopping.is_set():
                try:
                    self._connect()
                    jobs = await self._unless_stopped(topic.pop_many(BATCH, wait=None, ttr=TTR_S))
                    back_off.reset()
                    await self._publish_all(topic, jobs or [])
                except (TarryError, BrokerAway) as fault:
                    pause = back_off.next_delay()
                    log.warning("tarry relay: %s; trying again in %.1f s", fault, pause)
                    self._disconnect()
                    await self._unless_stopped(asyncio.sleep(pause))
                except BaseException:
                    self._disconnect()
                    raise

    async def _publish_all(self, topic: Topic, jobs: list[Job]) -> None:
        """Publishes while the reservations last, and releases the other messages."""
        ends = time.monotonic() + TTR_S / 2
        left, known = list(jobs), known_queues(self.waiting)
        try:
            while left and not self._stopping.is_set() and time.monotonic() < ends:
                job = left[0]
                try:
                    message, queues = accepted(self.app, job, known)
                except MessageRefused as fault:
                    log.warning("tarry relay: message %s is refused, and is dead now: %s", job.id, fault)
                    await _settled(topic.bury(left.pop(0), reason=f"refused: {fault}"))
                    continue
                except UnknownQueue as fault:
                    log.warning("tarry relay: message %s waits for another relay: %s", job.id, fault)
                    await _settled(topic.release(left.pop(0), reason=str(fault)))
                    continue
                try:
                    self._publish_again_if_cut_off(job, message, queues)
                except BrokerAway:
                    raise
                except Exception as fault:  # of this message alone: it must not keep back the others
                    log.exception("tarry relay: task %s cannot be published; it is tried again later", job.id)
                    await _settled(topic.release(left.pop(0), reason=f"{type(fault).__name__}: {fault}"))
                    continue
                await _settled(topic.finish(left.pop(0)))
                self.published += 1
        finally:
            if left:
                await _settled(topic.release_many(left, counted=False))

    def _publish_again_if_cut_off(self, job: Job, message: WaitingMessage, queues: list[Any]) -> None:
        """An error means something else in each transport. Where a new connection can be had and the message
        fails again, it is the message."""
        try:
            self._publish(job, message, queues)
        except Exception:  # see above
            log.debug("tarry relay: task %s is published again, by a new connection", job.id, exc_info=True)
            self._disconnect()
            self._connect()
            self._publish(job, message, queues)

    def _publish(self, job: Job, message: WaitingMessage, queues: list[Any]) -> None:
        publish = dict(message["publish"])
        headers = publish["headers"] = dict(publish["headers"])
        expires = headers.get("expires")
        if expires and "expiration" in publish:
            publish["expiration"] = seconds_until(expires)
            if not publish["expiration"]:
                del publish["expiration"]  # the broker would drop it; a worker marks it as revoked
        if abs(job.due - job.created - timedelta(seconds=message["delay"])) > timedelta(milliseconds=1):
            headers[ETA] = job.due.isoformat()  # it was rescheduled
        self._producer.publish(publish.pop("body"), declare=queues, **publish)

    # ── the broker ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _connect(self) -> None:
        if self._connection is None:
            connection = self.app.connection_for_write()
            if connection.transport.driver_type == "amqp":  # published is what the broker has said it has
                connection = self.app.connection_for_write(transport_options={"confirm_publish": True})
            self._connection = connection
            try:
                connection.ensure_connection(max_retries=1, interval_start=0)
            except Exception as fault:
                raise BrokerAway(f"the broker {connection.as_uri()}: {fault}") from fault
            self._producer = self.app.amqp.Producer(connection, auto_declare=False)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.release()
            except Exception:  # it may be broken in any way, and is not needed any more
                log.debug("tarry relay: while a connection was closed", exc_info=True)

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        """The result of ``work``; ``None`` if ``stop`` comes first. A pop that is cancelled releases its jobs."""
        task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            stopping.cancel()
            task.cancel()
            await asyncio.wait({task, stopping})
        return None


async def _settled(settling: Awaitable[None]) -> None:
    """A receipt that no longer holds: the task has retried, was revoked, or another relay has it. Nothing is left to do."""
    try:
        await settling
    except StaleReceipt as stale:
        log.debug("tarry relay: %s", stale)


class RelayStep(bootsteps.StartStopStep):
    """A relay in a worker: a thread beside the pool."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: Any, **options: Any) -> None:
        super().__init__(parent, **options)
        self._relay: Relay | None = None
        self._thread: threading.Thread | None = None

    def start(self, parent: Any) -> None:
        """After the pool has forked."""
        self._relay = relay = Relay(parent.app)
        self._thread = threading.Thread(target=lambda: asyncio.run(relay.run()), name="tarry-relay", daemon=True)
        self._thread.start()

    def stop(self, parent: Any) -> None:  # noqa: ARG002  # as boot steps are called
        """Before the pool stops. Messages that were popped and not published are released."""
        if self._relay is not None and self._thread is not None:
            self._relay.stop()
            self._thread.join(TTR_S)

    terminate = stop
