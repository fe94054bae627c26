"""A thread pool for plain functions: as many threads as slots, each started when it is first needed.

    loop ──put──▶ queue ──▶ thread: call(job) ──▶ finished ──one wake-up for many──▶ loop

The threads are daemons: a function that never returns does not keep the process from exiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from tarry.connections.background import failures
from tarry.values.functions import refuse_unfinished

J = TypeVar("J")
"""A job, or an element that was taken from a queue."""


class ThreadPool(Generic[J]):
    """The threads of one topic or queue. ``on_end`` is called in the event loop, once for each job."""

    def __init__(self, name: str, size: int, on_end: Callable[[J, BaseException | None], None]) -> None:
        self._name = name
        self._size = size
        self._on_end = on_end
        self._queue: SimpleQueue[tuple[J, Callable[[J], Any]] | None] = SimpleQueue()
        self._finished: deque[tuple[J, BaseException | None]] = deque()
        self._notified = False
        self._loop = asyncio.get_running_loop()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def run(self, job: J, call: Callable[[J], Any], busy: int) -> None:
        """Runs the job as soon as a thread is free. ``busy`` is the number of running jobs, this one included, if that is known."""
        self._queue.put((job, call))
        self._unfinished += 1
        if len(self._threads) < min(max(busy, self._unfinished), self._size):
            name = f"tarry {self._name} {len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def cancel_queued(self) -> list[J]:
        """Removes and returns the jobs that no thread has started."""
        found: list[J] = []
        try:
            while (item := self._queue.get_nowait()) is not None:
                found.append(item[0])
                self._unfinished -= 1
        except Empty:
            pass
        return found

    def end(self) -> None:
        """Lets each thread exit when its function returns."""
        for _ in self._threads:
            self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, call = item
            fault: BaseException | None = None
            try:
                refuse_unfinished(call(job))
            except BaseException as raised:  # noqa: BLE001  # the event loop decides what follows
                fault = raised
            self._finished.append((job, fault))
            del item, job, call, fault
            if not self._notified:
                self._notified = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:  # the loop is closed: the job was released long ago
                    return

    def _drain(self) -> None:
        self._notified = False  # first: a job that ends from now on wakes the loop again
        while self._finished:
            self._unfinished -= 1
            try:
                self._on_end(*self._finished.popleft())
            except Exception as fault:  # noqa: BLE001  # of this job: its reservation ends after its TTR
                failures.note_once("tarry handlers", fault)
