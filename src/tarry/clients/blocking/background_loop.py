# Made from src/tarry/clients/awaited/background_loop.py by tools/blocking.py: change that file, then `make blocking`.
"""A loop in the background of a blocking client: it works when something is due, and else waits."""

from __future__ import annotations

from tarry.clients.blocking.concurrency import Background, Mutex, Signal
from tarry.clients.config import ErrorLog
from tarry.connections.background import failures
from tarry.connections.clock import now
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.core.patience import RetryDelay
from tarry.errors import TarryError

CLOSING_S = 5.0
LONGEST_SLEEP_S = 30.0
PAUSE_S = 1.0
"""The pause after a failure."""


class BackgroundLoop:
    """Works in one thread, from ``_start`` until it is closed or has nothing left to do."""

    NAME: str

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._wakeup = Signal()
        self._closed = False
        self._title = f"The background work {self.NAME}"
        self._errors = ErrorLog()
        self._back_off = RetryDelay()
        self._background: Background | None = None

    def _start(self) -> None:
        """Starts it, if it does not run. The caller holds the mutex."""
        if self._background is None and not self._closed:
            self._background = Background(self.NAME, self._run)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            background = self._background
        self._wakeup.set()
        if background is not None:
            background.join(CLOSING_S)

    # ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            self._wakeup.clear()  # whatever comes from here on is seen in the next round, if not in this one
            try:
                until = self._work()
                self._errors.resolved(self._title)
                self._back_off.reset()
            except (TarryError, *CONNECTION_ERRORS) as fault:
                self._errors.report(self._title, "continued", fault)
                until = now() + PAUSE_S
            except Exception as fault:  # noqa: BLE001  # whatever it is, the work must go on
                failures.note(self.NAME, fault)
                until = now() + self._back_off.next_delay()
            with self._mutex:
                if self._closed or not self._is_needed():
                    self._background = None
                    break
            self._wakeup.wait(min(until - now(), LONGEST_SLEEP_S))
        if self._closed:
            self._end()

    def _work(self) -> float:
        """Does what is due. Returns when to work next."""
        raise NotImplementedError

    def _is_needed(self) -> bool:
        """Whether there is something left to do. It is called under the mutex."""
        return True

    def _end(self) -> None:
        """The last work, after it was closed."""
