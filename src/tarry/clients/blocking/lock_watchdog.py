"""The locks of one client in one process: who holds, who waits, and the thread that keeps time for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.lock_options import (
    CLEAN_UP_EVERY_S,
    CLOSING_S,
    LONGEST_SLEEP_S,
    AcquisitionIds,
    call_listeners,
    logger,
)
from tarry.errors import TarryError
from tarry.verbs.locks.lock_steps import LockBackend, Sleep, Steps, WaitUntil, clean_up
from tarry.verbs.locks.lock_table import LockTable
from tarry.verbs.locks.redis_backend import RENEWED_EVERY_S

T = TypeVar("T")


class LockWakeEvent:
    """Wakes one thread; rung twice is once. Rung before it is waited for, it is not missed."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it was rung already
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=min(max(seconds, 0), threading.TIMEOUT_MAX))


class LockWatchdog:
    """Renews, notices what is over, tells who listens, and tidies up: one thread, begun with the first lock."""

    def __init__(self, make_backend: Callable[[LockTable], LockBackend], perform: Callable[[Any], Any]) -> None:
        self.acquisition_ids = AcquisitionIds()
        self._wakeup = LockWakeEvent()
        self.table = LockTable(time.monotonic, threading.Lock(), self._wakeup.set, threading.Thread.is_alive)
        self.backend = make_backend(self.table)
        self._perform = perform
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, steps: Steps[T], wake_event: LockWakeEvent | None = None) -> T:
        """Performs steps; ``wake_event`` is the one of the order."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._perform_step(step, wake_event)
                except BaseException as fault:  # noqa: BLE001  # the steps decide what it means
                    step = steps.throw(fault)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform_step(self, step: Any, wake_event: LockWakeEvent | None) -> Any:
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if not isinstance(step, WaitUntil):
            return self._perform(step)
        assert wake_event is not None
        return wake_event.wait(step.until - time.monotonic())

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """From now on the locks are looked after."""
        if self._thread is None:
            with self._start:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="tarry-locks", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        renew_at = time.monotonic() + RENEWED_EVERY_S
        while not self._closed:
            try:
                self._check()
                due = time.monotonic() >= renew_at
                if self.table.check_is_due(due):
                    after, renew_at = renew_at, time.monotonic() + CLEAN_UP_EVERY_S  # if it fails
                    self.run(self.backend.renew(self.table.holds, due=due))
                    renew_at = time.monotonic() + RENEWED_EVERY_S if due else after
            except Exception as fault:  # noqa: BLE001  # whatever it is, time goes on
                logger.warning("Locks could not be looked after, trying again: %s", fault)
            now = time.monotonic()
            until = self.table.watchdog_wakes_at = min(self.table.next_due(), renew_at, now + LONGEST_SLEEP_S)
            self._wakeup.wait(until - now)

    def _check(self) -> None:
        told, left = self.table.collect_due()
        call_listeners(told)
        for acquisition in left:
            if not self.run(clean_up(self.backend, acquisition)):
                self.table.retry_clean_up(acquisition, time.monotonic() + CLEAN_UP_EVERY_S)

    def close(self) -> None:
        """Gives back what is held; the holds are lost."""
        for hold in self.table.holds:
            self.table.lose_hold(hold, "its client was closed")
        self._closed = True
        self._wakeup.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)
        with suppress(TarryError):
            self._check()
