"""Threads for plain functions, as many as there are slots; started when they are first needed.

    loop ──put──▶ queue ──▶ thread: call(job) ──▶ over ──one wake-up for many──▶ loop

They are daemons: a function that never returns does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from tarry.clients.blocking.job import Job
from tarry.clients.blocking.topic import Topic
from tarry.verbs.jobs.models import HandedOut

J = TypeVar("J")
"""What is handled: a job, or what was taken from a queue."""


def refuse_awaitable(result: Any) -> None:
    """A plain function that answers a coroutine has done nothing yet: its job must not count as done."""
    if result is not None and hasattr(result, "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError("the handler is a plain function and answered something to await; make it an async def")


class ThreadPool(Generic[J]):
    """One topic's threads. ``ended`` is called in the loop, once for each job."""

    def __init__(self, name: str, most: int, ended: Callable[[J, BaseException | None], None]) -> None:
        self._name = name
        self._size = most
        self._ended = ended
        self._queue: SimpleQueue[tuple[J, Callable[[J], Any]] | None] = SimpleQueue()
        self._over: deque[tuple[J, BaseException | None]] = deque()
        self._notified = False
        self._loop = asyncio.get_running_loop()
        self._threads: list[threading.Thread] = []

    def run(self, job: J, call: Callable[[J], Any], busy: int) -> None:
        """Runs it as soon as a thread is free. ``busy``: how many jobs are in hand, this one included."""
        self._queue.put((job, call))
        if len(self._threads) < min(busy, self._size):
            name = f"tarry {self._name} {len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def cancel_queued(self) -> list[J]:
        """Those that no thread has begun: they will not be."""
        found: list[J] = []
        try:
            while (item := self._queue.get_nowait()) is not None:
                found.append(item[0])
        except Empty:
            pass
        return found

    def end(self) -> None:
        """Threads end when their functions return."""
        for _ in self._threads:
            self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, call = item
            fault: BaseException | None = None
            try:
                refuse_awaitable(call(job))
            except BaseException as raised:  # noqa: BLE001  # whatever it is, the job's fate is decided in the loop
                fault = raised
            self._over.append((job, fault))
            del item, job, call, fault
            if not self._notified:
                self._notified = True
                try:
                    self._loop.call_soon_threadsafe(self._drain)
                except RuntimeError:  # the loop is closed: the job was given back long ago
                    return

    def _drain(self) -> None:
        self._notified = False  # before looking: what comes from now on wakes the loop again
        while self._over:
            self._ended(*self._over.popleft())


def as_blocking_job(job: HandedOut[Any], topic: Topic[Any]) -> Job[Any]:
    """The same job with verbs that block, for a thread."""
    raw = (job.id.encode(), job._value, job.attempt, job._due, job._ttr)
    return Job(job.topic, job._codec, job.receipt, job._now, raw).belongs_to(topic)
