"""Consumes a queue that is shared with Java: takes elements one by one and calls the handler with each value.

    ready ──BLPOP──▶ taken ──▶ handler ──▶ gone
                       │          └─ raises ──▶ poison, with the reason; the next one comes
                       └─ stopped before it ended ──▶ back to the head of the queue

Rules
- There are no acknowledgements: a taken element is in this process's memory and nowhere else. A killed process loses the
  elements that its handlers work on, at most one for each slot.
- An element is taken only for a free slot. One that the server refuses to put back or set aside keeps its slot and is
  retried until the worker ends. Waiting also moves due elements of the delayed queue of the same name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tarry.clients.redisson.awaited.blocking_queue import AsyncBlockingQueue, take_next
from tarry.clients.redisson.queue_waits import failure_reason
from tarry.connections.background import failures
from tarry.errors import BadInput, TarryError
from tarry.values.functions import refuse_unfinished
from tarry.verbs.redisson.delayed.transfer import give_back, transfer
from tarry.worker.handlers import QueueRoute
from tarry.worker.idle_check import IdleCheck
from tarry.worker.log_lines import Tally
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.threads import ThreadPool
from tarry.worker.verdicts import Pause, meant

logger = logging.getLogger("tarry.worker")
CLEAN_UP_TIMEOUT_S = 1.0
FIRST_LOOK_S = 0.05
"""How long the first pop waits, to learn that the server is there; the next ones wait forever."""

NEXT_MILLISECOND_S = 0.002
"""Due times of elements are whole milliseconds, rounded up: what was offered without a delay is due after this time."""


class TakenElement:
    """One element that was taken, and the task that handles it."""

    __slots__ = ("payload", "task", "value")

    def __init__(self, payload: bytes, value: Any) -> None:
        self.payload = payload
        self.value = value
        self.task: asyncio.Task[None] | None = None


class QueueConsumer:
    """Takes and handles the elements of one queue."""

    def __init__(self, route: QueueRoute, queue: AsyncBlockingQueue[Any], outage: Outage) -> None:
        self.name = route.queue
        self.slots = route.slots
        self.tally = Tally(route.queue)
        self.running: set[TakenElement] = set()
        self._call = route.handler.function
        self._is_async = route.handler.is_async
        self._queue = queue
        self._health = ServerHealth(outage)
        self.idle_check: IdleCheck | None = None
        """With it, it ends when nothing is due and nothing runs."""
        self._threads: ThreadPool[TakenElement] | None = None
        self._wakeup = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._ending = False

    @property
    def busy(self) -> int:
        """How many handlers run."""
        return len(self.running)

    @property
    def has_work(self) -> bool:
        """Whether an element is handled, or is being put back or set aside."""
        return bool(self.running or self._background)

    # ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Takes elements and starts handlers, forever or until nothing is due and nothing runs. Cancelling it loses no element."""
        while True:
            while len(self.running) + len(self._background) >= self.slots:
                await self._wait_for_change()
            happened = 0 if self.idle_check is None else self.idle_check.happened
            try:
                taken = await self._take_next()
            except TarryError as fault:
                if not self._health.should_retry(fault):
                    raise
                await self._health.back_off(fault)
                continue
            self._health.succeeded()
            if taken is not None:
                self._start(TakenElement(*taken))
            elif self.idle_check is not None and await self.idle_check.found_nothing(self, happened, waits=False):
                return

    def _note_for_idle_check(self) -> None:
        if self.idle_check is not None:
            self.idle_check.note(self)

    async def _take_next(self) -> tuple[bytes, Any] | None:
        queue = self._queue
        if self.idle_check is None:
            found = await take_next(queue, float("inf") if self._health.healthy else FIRST_LOOK_S)
            return None if found is None else (found.payload, found.value)
        taken = await self._take_due()
        if taken is None and self.idle_check.in_real_time:
            await asyncio.sleep(NEXT_MILLISECOND_S)
            taken = await self._take_due()
        return taken

    async def _take_due(self) -> tuple[bytes, Any] | None:
        queue = self._queue
        while payloads := (await queue.engine.run(transfer(queue.verbs.keys, limit=1))).payloads:
            for value in await queue.engine.run(queue.verbs.read(payloads[0])):
                return payloads[0], value
        return None

    def _start(self, element: TakenElement) -> None:
        self.running.add(element)
        self._note_for_idle_check()
        self.tally.taken += 1
        if self._is_async:
            element.task = asyncio.ensure_future(self._handle(element))
            return
        if self._threads is None:
            self._threads = ThreadPool(self.name, self.slots, self._ended)
        self._threads.run(element, lambda held: self._call(held.value), len(self.running))

    async def _handle(self, element: TakenElement) -> None:
        fault: BaseException | None = None
        try:
            refuse_unfinished(await self._call(element.value), is_async=True)
        except BaseException as raised:  # _ended decides what follows
            fault = raised
            if isinstance(raised, KeyboardInterrupt):
                raise
        finally:
            self._ended(element, fault)

    def _ended(self, element: TakenElement, fault: BaseException | None) -> None:
        if element not in self.running:
            return  # a thread that ended after its element was put back
        self.running.discard(element)
        self._wakeup.set()
        if fault is None:
            self.tally.done += 1
        elif isinstance(fault, (asyncio.CancelledError, KeyboardInterrupt)):
            self._in_background(self._put_back([element]))
        else:
            self.tally.dead += 1
            if isinstance(meant(fault), Pause):
                fault = BadInput(
                    "Pause: a queue that is shared with Java cannot be paused; raise it in the handler of a topic."
                )
            logger.error("✗ %s: an element is set aside: %s", self.name, failure_reason(fault), exc_info=fault)
            self._in_background(self._add_poison(element, failure_reason(fault)))
        self._note_for_idle_check()

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        failures.task_ended("tarry settling", task)
        self._wakeup.set()
        self._note_for_idle_check()

    async def _add_poison(self, element: TakenElement, reason: str) -> None:
        try:
            await self._until_answered(
                lambda: self._queue.engine.run(self._queue.verbs.add_poison([(element.payload, reason)]))
            )
        except TarryError:
            logger.exception("✗ %s: an element could not be set aside, it is lost.", self.name)

    async def _put_back(self, element: list[TakenElement]) -> None:
        if element:
            back = give_back(self._queue.verbs.keys.ready, [one.payload for one in element])
            try:
                await self._until_answered(lambda: self._queue.engine.run(back))
            except TarryError:
                logger.exception("✗ %s: %d elements could not be put back, they are lost.", self.name, len(element))

    async def _until_answered(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Retries until the server answers; while the worker stops, tries once. Raises a ``TarryError``."""
        while True:
            try:
                await ask()
            except TarryError as fault:
                if self._ending:
                    raise
                await self._health.back_off(fault)
            else:
                return self._health.succeeded()

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _wait_for_change(self) -> None:
        self._wakeup.clear()
        await self._wakeup.wait()

    async def wait_until_idle(self) -> None:
        """Waits until no handler runs."""
        while self.running:
            await self._wait_for_change()

    async def stop(self, grace_s: float, stop_now: asyncio.Event) -> tuple[int, int]:
        """Waits for the running handlers, then puts back the rest.

        Returns how many running ones were cut off, and how many had not started.
        """
        self._ending = True
        not_started = self._threads.cancel_queued() if self._threads is not None else []
        self.running.difference_update(not_started)
        interrupted, resting = asyncio.ensure_future(stop_now.wait()), asyncio.ensure_future(self.wait_until_idle())
        await asyncio.wait({interrupted, resting}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        resting.cancel()
        late = len(self.running)
        tasks = [held.task for held in self.running if held.task is not None]
        for task in tasks:
            task.cancel()  # each puts its element back
        if tasks:
            await asyncio.wait(tasks, timeout=CLEAN_UP_TIMEOUT_S)
        left = [*not_started, *self.running]
        self.running.clear()
        await self._put_back(left)
        if self._background:
            await asyncio.wait(self._background)
        if self._threads is not None:
            self._threads.end()
        return late, len(not_started)
