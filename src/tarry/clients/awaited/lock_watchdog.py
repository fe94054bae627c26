"""The locks of one client in one event loop: who holds, who waits, and the task that keeps time for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from tarry.clients.lock_options import (
    CLEAN_UP_EVERY_S,
    CLOSING_S,
    LONGEST_SLEEP_S,
    AcquisitionIds,
    call_listeners,
    logger,
)
from tarry.verbs.locks.lock_steps import LockBackend, Sleep, Steps, WaitUntil, clean_up
from tarry.verbs.locks.lock_table import LockTable
from tarry.verbs.locks.redis_backend import RENEWED_EVERY_S

T = TypeVar("T")


class LockWakeEvent:
    """Wakes one task; rung twice is once. Rung before it is waited for, it is not missed."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == float("inf") else max(seconds, 0)):
                await self._event.wait()
        rung = self._event.is_set()
        self._event.clear()
        return rung


def alive(task: asyncio.Task[Any]) -> bool:
    return not task.done()


class LockWatchdog:
    """Renews, notices what is over, tells who listens, and tidies up: one task, begun with the first lock."""

    def __init__(
        self, make_backend: Callable[[LockTable], LockBackend], perform: Callable[[Any], Awaitable[Any]]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.acquisition_ids = AcquisitionIds()
        self._wakeup = LockWakeEvent()
        self.table = LockTable(self.loop.time, nullcontext(), self._wakeup.set, alive)
        self.backend = make_backend(self.table)
        self._perform = perform
        self._task: asyncio.Task[None] | None = None
        self._work: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def run(self, steps: Steps[T], wake_event: LockWakeEvent | None = None) -> T:
        """Performs steps; ``wake_event`` is the one of the order."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._perform_step(step, wake_event)
                except BaseException as fault:  # noqa: BLE001  # the steps decide what it means
                    step = steps.throw(fault)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _perform_step(self, step: Any, wake_event: LockWakeEvent | None) -> Any:
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if not isinstance(step, WaitUntil):
            return await self._perform(step)
        assert wake_event is not None
        return await wake_event.wait(step.until - self.loop.time())

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """From now on the locks are looked after."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        renew_at = self.loop.time() + RENEWED_EVERY_S
        while not self._closed:
            self._check()
            due = self.loop.time() >= renew_at
            if self.table.check_is_due(due):
                renew_at = self.loop.time() + RENEWED_EVERY_S if due else renew_at
                self._spawn(self._renew(due))
            now = self.loop.time()
            until = self.table.watchdog_wakes_at = min(self.table.next_due(), renew_at, now + LONGEST_SLEEP_S)
            await self._wakeup.wait(until - now)

    def _check(self) -> None:
        told, left = self.table.collect_due()
        call_listeners(told)
        for acquisition in left:
            self._spawn(self._clean_up(acquisition))

    async def _renew(self, due: bool) -> None:
        try:
            await self.run(self.backend.renew(self.table.holds, due=due))
        except Exception as fault:  # noqa: BLE001  # whatever it is, time goes on
            logger.warning("Locks could not be looked after, trying again: %s", fault)

    async def _clean_up(self, acquisition: Any) -> None:
        if not await self.run(clean_up(self.backend, acquisition)):
            self.table.retry_clean_up(acquisition, self.loop.time() + CLEAN_UP_EVERY_S)
            self._wakeup.set()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        """Gives back what is held; the holds are lost."""
        for hold in self.table.holds:
            self.table.lose_hold(hold, "its client was closed")
        self._closed = True
        self._wakeup.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSING_S)
            self._task.cancel()
        self._check()
        if self._work:
            await asyncio.wait(self._work, timeout=CLOSING_S)
        for task in self._work:
            task.cancel()
