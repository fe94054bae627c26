"""Work in the background: each thread and each task that works for long runs here, so that an error in it is seen and does not end it.

    run ──returns──▶ the end
     ▲ └──raises──▶ logged with its traceback, counted ──▶ back-off ─┐
     └────────────────────────────────────────────────────────────────┘

Work that fails ten times within a minute makes its process unfit: a worker ends, so that its supervisor sees it; in any other process
the log says so, and the work goes on. A task for one job or one request is not started again. docs/decisions/0088-background-threads.md lists all of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tarry.core.patience import RetryDelay

logger = logging.getLogger("tarry")
MOST, WITHIN_S = 10, 60.0
"""So many failures of one kind of work within this time make a process unfit."""
OnFailure = Callable[[str, str], None]
"""Is called with the work that failed, in its thread; and why the process is unfit, or nothing."""


class BackgroundFailures:
    """The failures of work in the background of this process, by its name. Thread-safe."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._listeners: list[OnFailure] = []
        self.forget()

    def forget(self) -> None:
        """Begins again; a forked child has failed in nothing yet."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._recent: dict[str, deque[float]] = {}
        self._quiet_until: dict[str, float] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of work has failed."""
        with self._lock:
            return dict(self._counts)

    def listen(self, listener: OnFailure) -> Callable[[], None]:
        """Calls the listener at each failure, until the function that it returns is called; once more does nothing."""
        self._listeners.append(listener)

        def end() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def note(self, work: str, fault: BaseException) -> None:
        """Logs and counts an unexpected error of work that goes on. After ten within a minute the log has no more than one a minute."""
        now, unfit = self.now(), ""
        with self._lock:
            recent = self._recent.setdefault(work, deque(maxlen=MOST))
            recent.append(now)
            level = logging.ERROR if now >= self._quiet_until.get(work, now) else logging.DEBUG
            if len(recent) == MOST and now - recent[0] <= WITHIN_S:
                unfit = _why_unfit(work, fault)
                recent.clear()
                self._quiet_until[work] = now + WITHIN_S
        self._record(work, fault, level, unfit)

    def note_once(self, work: str, fault: BaseException) -> None:
        """The same for work on one job or one request. It makes no process unfit: a job that nobody can settle stops no worker."""
        self._record(work, fault, logging.ERROR, "")

    def _record(self, work: str, fault: BaseException, level: int, unfit: str) -> None:
        with self._lock:
            self._counts[work] += 1
            fields = {"work": work, "failures": self._counts[work]}
        logger.log(level, "✗ %s failed in an unexpected way.", work, exc_info=fault, extra={"tarry": fields})
        if unfit:
            logger.log(level, "✗ %s", unfit, extra={"tarry": fields})
        for listener in list(self._listeners):
            listener(work, unfit)

    @contextmanager
    def noted(self, work: str) -> Generator[None]:
        """Notes an error of the block, and drops it."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001  # whatever it is
            self.note_once(work, fault)

    def watch_task(self, work: str, task: asyncio.Future[Any]) -> None:
        """Notes the error of a task that nobody awaits."""
        task.add_done_callback(partial(self.task_ended, work))

    def task_ended(self, work: str, task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self.note_once(work, fault)


failures = BackgroundFailures(time.monotonic)
"""Those of this process."""
os.register_at_fork(after_in_child=failures.forget)


def supervise(work: str, run: Callable[[], object], pause: Callable[[float], object] = time.sleep) -> None:
    """Runs a thread's work until it returns. After an error it begins again, once ``pause`` has waited so many seconds; the work is over
    if that returns true."""
    back_off = RetryDelay()
    while True:
        began = failures.now()
        try:
            run()
        except BaseException as fault:  # noqa: BLE001  # whatever it is: a thread that ends is missed by nobody
            failures.note(work, fault)
        else:
            return
        if failures.now() - began > WITHIN_S:
            back_off.reset()
        if pause(back_off.next_delay()):
            return


async def supervise_task(
    work: str, run: Callable[[], Awaitable[object]], pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """The same for a task, which may be cancelled."""
    back_off = RetryDelay()
    while True:
        began = failures.now()
        try:
            await run()
        except (Exception, asyncio.CancelledError) as fault:  # whatever it is: a task that ends is missed by nobody
            task = asyncio.current_task()
            if isinstance(fault, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            failures.note(work, fault)  # also where something that it awaits was cancelled
        else:
            return
        if failures.now() - began > WITHIN_S:
            back_off.reset()
        if await pause(back_off.next_delay()):
            return


def start_thread(
    work: str, run: Callable[[], object], pause: Callable[[float], object] = time.sleep
) -> threading.Thread:
    """Starts a supervised thread. It does not keep the process from exiting."""
    thread = threading.Thread(target=supervise, args=(work, run, pause), name=work, daemon=True)
    thread.start()
    return thread


def _why_unfit(work: str, fault: BaseException) -> str:
    reason = traceback.format_exception_only(fault)[-1].strip()  # unlike str(), it never fails
    return (
        f"{work} failed {MOST} times within a minute, at last by {reason}. Its tracebacks are in the log; "
        "restart this process, and report it as a bug if that does not help."
    )
