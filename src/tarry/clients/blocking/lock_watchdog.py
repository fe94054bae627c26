# Made from src/tarry/clients/awaited/lock_watchdog.py by tools/blocking.py: change that file, then `make blocking`.
"""The locks of one client: holders, waiters, and the watchdog that keeps time for all of them, blocking."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.blocking.background_loop import CLOSING_S, BackgroundLoop
from tarry.clients.blocking.concurrency import BackgroundCalls, Mutex, Signal, is_alive, sleep
from tarry.clients.blocking.flow_runner import run_flow
from tarry.clients.lock_options import (
    CLEAN_UP_EVERY_S,
    LONGEST_SLEEP_S,
    AcquisitionIds,
    call_listeners,
    log_watchdog_failure,
)
from tarry.connections.clock import now
from tarry.errors import TarryError
from tarry.verbs.locks.lock_steps import LockBackend, Sleep, Steps, WaitUntil, clean_up
from tarry.verbs.locks.lock_table import LockTable
from tarry.verbs.locks.redis_backend import RENEWED_EVERY_S

T = TypeVar("T")


class LockWatchdog(BackgroundLoop):
    """Renews leases, notices what is over, calls the listeners, and cleans up: one thread, started with the first lock."""

    NAME = "tarry-locks"

    def __init__(self, make_backend: Callable[[LockTable], LockBackend], perform: Callable[[Any], Any]) -> None:
        super().__init__()
        self.acquisition_ids = AcquisitionIds()
        self.table = LockTable(now, Mutex(), self._wakeup.set, is_alive)
        self.backend = make_backend(self.table)
        self._perform = perform
        self._calls = BackgroundCalls(self.NAME)
        self._renew_at = now() + RENEWED_EVERY_S

    def run(self, steps: Steps[T], wake_event: Signal | None = None) -> T:
        """Performs steps; ``wake_event`` wakes the acquisition that these steps perform."""
        return run_flow(steps, lambda step: self._perform_step(step, wake_event), BaseException)

    def _perform_step(self, step: Any, wake_event: Signal | None) -> Any:
        if isinstance(step, Sleep):
            return sleep(step.seconds)
        if not isinstance(step, WaitUntil):
            return self._perform(step)
        assert wake_event is not None
        return wake_event.wait(step.until - now())

    # ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Starts the background task, if it does not run."""
        if self._background is None:
            with self._mutex:
                self._start()

    def _work(self) -> float:
        self._check()
        due = now() >= self._renew_at
        if self.table.take_check_request(due):
            if due:
                self._renew_at = now() + RENEWED_EVERY_S
            self._calls.start(self._renew(due=due))
        until = min(self.table.next_due(), self._renew_at, now() + LONGEST_SLEEP_S)
        self.table.watchdog_wakes_at = until
        return until

    def _check(self) -> None:
        lost, left = self.table.collect_due()
        call_listeners(lost)
        for acquisition in left:
            self._calls.start(self._clean_up(acquisition))

    def _renew(self, *, due: bool) -> bool:
        """Returns whether it succeeded."""
        try:
            self.run(self.backend.renew(self.table.holds, due=due))
        except Exception as fault:  # noqa: BLE001  # whatever it is, time goes on
            log_watchdog_failure(fault, self.NAME)
            self._renew_at = min(self._renew_at, now() + CLEAN_UP_EVERY_S)
            self._wakeup.set()
            return False
        return True

    def _clean_up(self, acquisition: Any) -> bool:
        """Returns whether it succeeded."""
        done = self.run(clean_up(self.backend, acquisition))
        if not done:
            self.table.retry_clean_up(acquisition, now() + CLEAN_UP_EVERY_S)
            self._wakeup.set()
        return done

    def close(self) -> None:
        """Releases what is held; the holds are lost, and acquisitions that wait are refused."""
        self.table.close()
        for hold in self.table.holds:
            self.table.lose_hold(hold, "its client was closed")
        super().close()
        with suppress(TarryError):
            self._check()
        self._calls.join(CLOSING_S)
