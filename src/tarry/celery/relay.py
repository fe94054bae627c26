"""The relay: publishes what is due.

    pop a few ──▶ publish them ──▶ finish each that the broker has ──▶ pop the next …

A job is finished when the broker has its message, never before. RabbitMQ confirms messages some time after they were sent, so a batch
is under way at a time, and a crash may repeat it; with any other broker they go one after another, and a crash repeats one. While the
broker does not answer nothing is popped, and what was popped is released.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import takewhile
from typing import Any, TypeVar

from celery import bootsteps

from tarry import AsyncJob, AsyncTopic
from tarry.celery.acceptance import MessageRefused, UnknownQueue, accepted, known_queues
from tarry.celery.broker import Broker, BrokerAway
from tarry.celery.delayed_messages import (
    ETA,
    TTR_S,
    MessageCodec,
    WaitingMessage,
    WaitingTasks,
    seconds_until,
    waiting_tasks,
)
from tarry.errors import StaleReceipt, TarryError
from tarry.internal import RetryDelay, supervise_task

BATCH = 32
"""So many messages wait for ``TTR_S`` when a relay is killed, and may be repeated at RabbitMQ; more would save calls."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""Back-off while a server does not answer."""
SLICE_S = 0.05
"""So often the wait for confirmations looks whether the relay is to stop."""
Job = AsyncJob[WaitingMessage]
Topic = AsyncTopic[WaitingMessage]
T = TypeVar("T")
log = logging.getLogger("tarry.celery")


@dataclass(frozen=True)
class DueMessage:
    """A job with what kombu's ``publish`` is given."""

    job: Job
    body: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def goes_alone(self) -> bool:
        """See ``_next_part``."""
        return self.job.attempt > 1 or bool(self.options.get("mandatory"))


class Relay:
    """Publishes an app's waiting tasks when they are due, until ``stop``. Any number of relays share the work."""

    def __init__(self, app: Any) -> None:
        self.app = app
        """The Celery app."""
        self.waiting: WaitingTasks = waiting_tasks(app)
        """The waiting tasks of its app."""
        self.published: int = 0
        """How many messages it has published."""
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_early = False
        self._broker = Broker(app)

    def stop(self) -> None:
        """Ends ``run`` when the messages that it is publishing are sent. May be called from any thread."""
        self._stop_early = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def run(self) -> None:
        """Publishes due messages until ``stop`` is called."""
        self._loop = asyncio.get_running_loop()
        if self._stop_early:
            return
        await supervise_task("tarry-relay", self._work, self._pause)
        self._broker.close()

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
                    self._broker.connect()
                    jobs = await self._unless_stopped(topic.pop_many(BATCH, wait=None, ttr=TTR_S))
                    back_off.reset()
                    await self._publish_all(topic, jobs or [])
                except (TarryError, BrokerAway) as fault:
                    pause = back_off.next_delay()
                    log.warning("tarry relay: %s; trying again in %.1f s", fault, pause)
                    self._broker.disconnect()
                    await self._unless_stopped(asyncio.sleep(pause))
                except BaseException:
                    self._broker.disconnect()
                    raise

    async def _publish_all(self, topic: Topic, jobs: list[Job]) -> None:
        """Publishes while the reservations last, and releases the other messages."""
        ends = time.monotonic() + TTR_S / 2
        left = {job.id: DueMessage(job) for job in jobs}
        try:
            await self._set_aside(topic, left)
            while left and not self._stopping.is_set() and time.monotonic() < ends:
                part = self._next_part(left)
                try:
                    await self._publish(topic, part, left)
                except (TarryError, BrokerAway):
                    raise
                except Exception:  # means something else in each transport: the connection, or one of the messages
                    log.debug("tarry relay: %d messages are published again", len(part), exc_info=True)
                    self._broker.connect_again()
                    for message in part:
                        if message.job.id in left and not self._stopping.is_set() and time.monotonic() < ends:
                            await self._publish_alone(topic, message, left)
        finally:
            if left:
                await _settled(topic.release_many([message.job for message in left.values()], counted=False))

    async def _set_aside(self, topic: Topic, left: dict[str, DueMessage]) -> None:
        """Reads them, and takes out those that may not be published."""
        known = known_queues(self.waiting)
        for id, message in list(left.items()):
            try:
                left[id] = _read(message.job, *accepted(self.app, message.job, known))
            except MessageRefused as fault:
                log.warning("tarry relay: message %s is refused, and is dead now: %s", id, fault)
                await _settled(topic.bury(left.pop(id).job, reason=f"refused: {fault}"))
            except UnknownQueue as fault:
                log.warning("tarry relay: message %s waits for another relay: %s", id, fault)
                await _settled(topic.release(left.pop(id).job, reason=str(fault)))
            except Exception as fault:  # noqa: BLE001  # of this message alone, which must not keep back the others
                await self._release(topic, left.pop(id).job, fault)

    def _next_part(self, left: dict[str, DueMessage]) -> list[DueMessage]:
        """Those that go together. A message that was tried before goes alone: the fault may be its own, and closes the channel
        for all that are under way. A message that the broker may return does the same, because it comes back without a number."""
        first, *others = left.values()
        if not self._broker.confirms or first.goes_alone:
            return [first]
        return [first, *takewhile(lambda message: not message.goes_alone, others)]

    async def _publish_alone(self, topic: Topic, message: DueMessage, left: dict[str, DueMessage]) -> None:
        """If it fails although a new connection can be made, the fault is the message's, which must not keep back the others."""
        try:
            await self._publish(topic, [message], left)
        except (TarryError, BrokerAway):
            raise
        except Exception as fault:  # noqa: BLE001  # something else in each transport
            self._broker.connect_again()
            await self._release(topic, left.pop(message.job.id).job, fault)

    async def _publish(self, topic: Topic, messages: list[DueMessage], left: dict[str, DueMessage]) -> None:
        """Publishes them, and finishes each that the broker has. If it raises, those that are still in ``left`` may be with the broker."""
        for message in messages:
            self._broker.send(message.job.id, message.body, message.options)
        renewed = time.monotonic()
        stopped_at: float | None = None
        while True:
            await self._settle(topic, self._broker.take_outcomes(), left)
            if not (under_way := self._broker.under_way):
                return
            self._broker.drain(SLICE_S)
            now = time.monotonic()
            if self._stopping.is_set():
                stopped_at = stopped_at or now
                if now - stopped_at > TTR_S / 2:
                    raise BrokerAway(f"the relay was stopped, and the broker has not confirmed {under_way} messages")
            if now - renewed > TTR_S / 3:
                log.warning(
                    "tarry relay: %d messages wait to be confirmed; is the broker out of memory or disk?", under_way
                )
                renewed = now
                await _settled(topic.touch_many([message.job for message in left.values()], ttr=TTR_S))

    async def _settle(self, topic: Topic, outcomes: dict[str, Exception | None], left: dict[str, DueMessage]) -> None:
        confirmed = [left.pop(id).job for id, fault in outcomes.items() if fault is None]
        if confirmed:
            await _settled(topic.finish_many(confirmed))
            self.published += len(confirmed)
        for id, fault in outcomes.items():
            if fault is not None:
                await self._release(topic, left.pop(id).job, fault)
        await asyncio.sleep(0)  # so that ``stop`` is seen, and connections are served

    async def _release(self, topic: Topic, job: Job, fault: Exception) -> None:
        log.error("tarry relay: task %s cannot be published; it is tried again later", job.id, exc_info=fault)
        await _settled(topic.release(job, reason=f"{type(fault).__name__}: {fault}"))

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


def _read(job: Job, message: WaitingMessage, queues: list[Any]) -> DueMessage:
    """The message to publish now."""
    publish = dict(message["publish"])
    headers = publish["headers"] = dict(publish["headers"])
    expires = headers.get("expires")
    if expires and "expiration" in publish:
        publish["expiration"] = seconds_until(expires)
        if not publish["expiration"]:
            del publish["expiration"]  # the broker would drop it; a worker marks it as revoked
    if abs(job.due - job.created - timedelta(seconds=message["delay"])) > timedelta(milliseconds=1):
        headers[ETA] = job.due.isoformat()  # it was rescheduled
    return DueMessage(job, publish.pop("body"), {**publish, "declare": queues})


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
