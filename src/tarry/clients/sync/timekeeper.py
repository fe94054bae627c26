"""The locks of one client in one process: who holds, who waits, and the thread that keeps time for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.locking import CLOSING_S, LONGEST_SLEEP_S, TIDY_EVERY_S, Marks, logger, tell
from tarry.errors import TarryError
from tarry.verbs.locks.lock_steps import LockBackend, Sleep, Steps, WaitUntil, clean_up
from tarry.verbs.locks.lock_table import LockTable
from tarry.verbs.locks.redis_backend import RENEWED_EVERY_S

T = TypeVar("T")


class Bell:
    """Wakes one thread; rung twice is once. Rung before it is waited for, it is not missed."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with suppress(RuntimeError):  # it was rung already
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=min(max(seconds, 0), threading.TIMEOUT_MAX))


class Timekeeper:
    """Renews, notices what is over, tells who listens, and tidies up: one thread, begun with the first lock."""

    def __init__(self, keep: Callable[[LockTable], LockBackend], perform: Callable[[Any], Any]) -> None:
        self.marks = Marks()
        self._bell = Bell()
        self.house = LockTable(time.monotonic, threading.Lock(), self._bell.ring, threading.Thread.is_alive)
        self.keeper = keep(self.house)
        self._perform = perform
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, steps: Steps[T], bell: Bell | None = None) -> T:
        """Performs steps; ``bell`` is the one of the order."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = self._do(step, bell)
                except BaseException as fault:  # noqa: BLE001  # the steps decide what it means
                    step = steps.throw(fault)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, step: Any, bell: Bell | None) -> Any:
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if not isinstance(step, WaitUntil):
            return self._perform(step)
        assert bell is not None
        return bell.wait(step.until - time.monotonic())

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def keep_time(self) -> None:
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
                self._look()
                due = time.monotonic() >= renew_at
                if self.house.check_is_due(due):
                    after, renew_at = renew_at, time.monotonic() + TIDY_EVERY_S  # if it fails
                    self.run(self.keeper.renew(self.house.holds, due=due))
                    renew_at = time.monotonic() + RENEWED_EVERY_S if due else after
            except Exception as fault:  # noqa: BLE001  # whatever it is, time goes on
                logger.warning("Locks could not be looked after, trying again: %s", fault)
            now = time.monotonic()
            until = self.house.watchdog_wakes_at = min(self.house.next_due(), renew_at, now + LONGEST_SLEEP_S)
            self._bell.wait(until - now)

    def _look(self) -> None:
        told, left = self.house.collect_due()
        tell(told)
        for acquisition in left:
            if not self.run(clean_up(self.keeper, acquisition)):
                self.house.retry_clean_up(acquisition, time.monotonic() + TIDY_EVERY_S)

    def close(self) -> None:
        """Gives back what is held; the holds are lost."""
        for hold in self.house.holds:
            self.house.lose_hold(hold, "its client was closed")
        self._closed = True
        self._bell.ring()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)
        with suppress(TarryError):
            self._look()
