"""A lane: one topic, its handler and its slots.

    slots   ██████████▒▒▒▒▒▒┄┄┄┄        pop ──▶ start ──▶ done ──▶ finish, in the same turn as the next pop: one pipeline
            running   asked  free        ▲                          │
                      for                └──────────────────────────┘

While there is a backlog (the last pop was full) it pops again at once, half of the slots at a time, and sends that pop
before it runs the handlers of the last one: server and handlers work at the same time. Else it waits by the watch.

Each handler runs in a task of its own. Running those that never suspend one after the other in one task was tried: 0.8
instead of 3.0 µs a job on Python 3.11, of 7.5 µs that the process spends while the server, on its own core, spends 6.5. It
would hardly be faster, and what a handler leaves in its task or context would reach the next job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tarry.clients.aio.topic import AsyncJob, AsyncTopic
from tarry.errors import StaleReceipt, Unavailable
from tarry.programs.worker import lines
from tarry.programs.worker.outage import Outage
from tarry.verbs.jobs.face import way_out
from tarry.verbs.jobs.taking import MOST
from tarry.words.durations import Duration

logger = logging.getLogger("tarry.worker")
Handler = Callable[[AsyncJob[Any]], Coroutine[Any, Any, Any]]
RENEWALS = 3
"""A reservation is renewed when a third of its TTR is over: two more tries are left."""
LOOK_S = 0.05
"""Handlers that take no longer are not looked at for renewal."""

CLEAN_UP_S = 1.0
"""What a cancelled handler has to put its things in order, before its job is somebody else's."""


class Lane:
    """One topic's work. Nothing of tarry's own is awaited for a single job."""

    def __init__(self, topic: AsyncTopic[Any], handler: Handler, slots: int, ttr: Duration) -> None:
        self._topic = topic
        self._handler = handler
        self.slots = slots
        self._ttr = ttr
        self._running: dict[AsyncJob[Any], asyncio.Task[None] | None] = {}
        self._done: list[AsyncJob[Any]] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._freed: asyncio.Future[None] | None = None
        self._popping = False
        self._flushing = False
        self._ending = False
        self._outage = Outage(topic.name)

    @property
    def busy(self) -> int:
        """How many jobs are in hand."""
        return len(self._running)

    # ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def work(self) -> None:
        """Pops and starts, for ever. Cancelling it loses nothing: what runs goes on."""
        loop = asyncio.get_running_loop()
        backlog = False
        while True:
            free = self.slots - len(self._running)
            if not free:
                await self._slot()
                continue
            want = min(free, max(self.slots // 2, 1), MOST)
            self._flush()
            self._popping = backlog  # then what is done meanwhile leaves with the next pop
            try:
                jobs = await self._topic.pop_many(want, wait=0 if backlog else None, ttr=self._ttr)
            except Unavailable as fault:
                self._popping = backlog = False
                await self._outage.hold_on(fault)
                continue
            self._popping = False
            self._outage.over()
            backlog = len(jobs) == want
            if jobs:
                self._running.update(dict.fromkeys(jobs))
                loop.call_later(LOOK_S, self._mind, jobs)
                loop.call_soon(loop.call_soon, self._start, jobs)  # two turns on: the next pop is on its way by then

    async def _slot(self) -> None:
        self._freed = asyncio.get_running_loop().create_future()
        try:
            await self._freed
        finally:
            self._freed = None

    # ── handlers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, jobs: Sequence[AsyncJob[Any]]) -> None:
        lines.taken(jobs)
        create_task = asyncio.get_running_loop().create_task
        running = self._running
        for job in jobs:
            if job in running:  # else given back before it began
                running[job] = create_task(self._handle(job))

    async def _handle(self, job: AsyncJob[Any]) -> None:
        try:
            await self._handler(job)
        except BaseException as fault:
            self._spawn(self._give_back([job], fault))
            if not isinstance(fault, Exception):
                raise
        else:
            if not job.settled:
                self._done.append(job)
        finally:
            self._ended(job)

    def _ended(self, job: AsyncJob[Any]) -> None:
        self._running.pop(job, None)
        if self._freed is not None:
            if not self._freed.done():
                self._freed.set_result(None)
        elif not (self._popping or self._flushing):
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _flush(self) -> None:
        """Sends what is done on its way."""
        self._flushing = False
        if self._done:
            jobs, self._done = self._done, []
            self._spawn(self._finish(jobs))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _finish(self, jobs: list[AsyncJob[Any]]) -> None:
        try:
            await self._topic.finish_many(jobs)
        except StaleReceipt as fault:
            lines.stale(self._topic.name, fault)
        except Unavailable as fault:
            if self._ending:
                return self._outage.tell(fault)  # they come back after their TTR
            await self._outage.hold_on(fault)
            self._done += jobs  # a replay of what was done is answered like the first
            self._flush()
        else:
            lines.finished(jobs)

    async def _give_back(self, jobs: Sequence[AsyncJob[Any]], fault: BaseException) -> None:
        """Failed: again after a back-off, or dead after the last attempt. Stopped: again at once, uncounted."""
        jobs = [job for job in jobs if not job.settled]
        try:
            if not isinstance(fault, Exception):
                await self._topic.release_many(jobs, 0, count=False)
            else:
                for job in jobs:
                    lines.failed(job, fault)
                    await self._topic.client.run(way_out(self._topic.verbs, job, fault))
        except StaleReceipt as stale:
            lines.stale(self._topic.name, stale)
        except Unavailable as outage:
            self._outage.tell(outage)  # they come back after their TTR

    # ── renewal ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _mind(self, jobs: Sequence[AsyncJob[Any]]) -> None:
        """Renews, again and again, what still runs of one pop; all of it in one call."""
        running = [job for job in jobs if job in self._running and not job.settled]
        if running:
            pause = min(job.ttr for job in running).total_seconds() / RENEWALS
            asyncio.get_running_loop().call_later(max(pause - LOOK_S, LOOK_S), self._renew, running)

    def _renew(self, jobs: Sequence[AsyncJob[Any]]) -> None:
        running = [job for job in jobs if job in self._running and not job.settled]
        if running:
            self._spawn(self._touch(running))
            asyncio.get_running_loop().call_later(LOOK_S, self._mind, running)

    async def _touch(self, jobs: Sequence[AsyncJob[Any]]) -> None:
        try:
            await self._topic.touch_many(jobs)
        except StaleReceipt as fault:
            lines.stale(self._topic.name, fault)
        except Unavailable as fault:
            self._outage.tell(fault)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def end(self, grace_s: float, hurry: asyncio.Event) -> int:
        """Lets what runs come to its end, gives back what does not, and sends what is left to send. Answers how many."""
        self._popping, self._ending = False, True
        unbegun = [job for job, task in self._running.items() if task is None]
        for job in unbegun:
            del self._running[job]
        self._spawn(self._give_back(unbegun, asyncio.CancelledError()))
        if self._running and grace_s:
            await self._finished_or(hurry, grace_s)
        late = [task for task in self._running.values() if task is not None]
        for task in late:
            task.cancel()  # each gives its job back
        if late:
            await asyncio.wait(late, timeout=CLEAN_UP_S)
        await self._give_back(list(self._running), asyncio.CancelledError())
        self._flush()
        while self._errands:
            await asyncio.wait(self._errands)
        return len(unbegun) + len(late)

    async def _finished_or(self, hurry: asyncio.Event, grace_s: float) -> None:
        hurrying = asyncio.ensure_future(hurry.wait())
        ending = asyncio.ensure_future(asyncio.wait([task for task in self._running.values() if task is not None]))
        await asyncio.wait({hurrying, ending}, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        ending.cancel()
