"""Finds out when nothing is due and nothing runs: the end of ``run_until_idle``.

    pop ──▶ no job ──▶ something runs, and may add jobs: wait for one, or for its end ──▶ pop again
                  └──▶ nothing runs, and nothing has happened since that pop began: idle, once each consumer has found that

A job that runs, or one that is being settled, may add jobs to any topic, free a place of a limit, or be due again. So a pop that
found nothing counts only if it began after the last of them had ended. Consumers wait on the server for as long as something
runs; when it ends, their waits end at once, by one last pop each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

LOOK_AGAIN_S = 0.05
"""How often a consumer that does not wait on the server looks again while something runs: in imaginary time, and one of a queue
that is shared with Java."""


class IdleUser(Protocol):
    """A consumer, as far as this check knows it."""

    idle_check: IdleCheck | None

    @property
    def has_work(self) -> bool:
        """Whether a job of it runs or is being settled."""
        ...


class IdleCheck:
    """Shared by the consumers of one run. ``end_waits`` says whether waits on the server end at once; without it there are none."""

    def __init__(self, consumers: Sequence[IdleUser], end_waits: Callable[[bool], None] | None) -> None:
        self._consumers = consumers
        for consumer in consumers:
            consumer.idle_check = self
        self.happened = 0
        """How many jobs have been taken, or have ended."""
        self._end_waits = end_waits
        self._found_nothing: dict[IdleUser, int] = {}
        self._is_over = False
        self._change: asyncio.Future[None] | None = None
        self._is_busy = False
        if end_waits is not None:
            end_waits(True)

    @property
    def in_real_time(self) -> bool:
        """Whether time passes by itself."""
        return self._end_waits is not None

    @property
    def wait(self) -> float | None:
        """How long a pop of a topic waits: forever, until its wait is ended; or not at all."""
        return None if self.in_real_time else 0

    def note(self, consumer: IdleUser) -> None:
        """The consumer has taken a job, or one of its jobs has ended."""
        self.happened += 1
        if not self._is_busy or not consumer.has_work:
            self._note_busy()
        self._wake()

    async def found_nothing(self, consumer: IdleUser, since: int, *, waits: bool) -> bool:
        """A pop that began when ``happened`` was ``since`` has found nothing. Returns whether this is the end, or else when it is
        time for the next pop; ``waits``: that one waits."""
        self._found_nothing[consumer] = since
        if not self._is_busy and all(self._found_nothing.get(one) == self.happened for one in self._consumers):
            self._is_over = True
            self._wake()
        while not self._is_over and since == self.happened:
            if self._is_busy and waits and self.in_real_time:
                return False
            if self._change is None:
                self._change = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._change}, timeout=LOOK_AGAIN_S if self._is_busy else None)
            if self._is_busy:
                return False
        return self._is_over

    def _note_busy(self) -> None:
        is_busy = any(consumer.has_work for consumer in self._consumers)
        if is_busy != self._is_busy:
            self._is_busy = is_busy
            if self._end_waits is not None:
                self._end_waits(not is_busy)

    def _wake(self) -> None:
        if self._change is not None:
            self._change.set_result(None)
            self._change = None
