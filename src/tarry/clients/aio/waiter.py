"""Those who wait, in tasks: one task steps the watch for all of them, as long as anybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarry.clients.aio.runner import Runner
from tarry.idea.patience import FIRST, LONGEST
from tarry.idea.watch import Block, Caller, Watch
from tarry.links.awaiting import Server, WaitingLine
from tarry.links.faults import Fault
from tarry.verbs.jobs import taking
from tarry.verbs.jobs.waiting import PostAddress, turn


class Waiter:
    """All who wait on one server (on a Cluster: for one slot), in one event loop."""

    def __init__(self, runner: Runner, server: Server, name: bytes) -> None:
        self._runner = runner
        self._line = WaitingLine(server)
        self._watch = Watch(name)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._poke: asyncio.Future[None] = self._loop.create_future()
        self._blocked_until: float | None = None
        self._failures = 0

    async def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        """Waits for jobs; answers the caller, served or at the end of its time. Raises a ``TarryError``."""
        served: asyncio.Future[None] = self._loop.create_future()
        caller = Caller(want, self._loop.time() + seconds, lambda: _wake(served))
        fresh = self._watch.enter(caller, posts)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._drive())
        elif self._blocked_until is not None and (fresh or caller.deadline < self._blocked_until):
            self.poke()
        try:
            await served
        except asyncio.CancelledError:
            self._watch.leave(caller)
            if caller.found is not None:
                post, found, jobs = caller.found
                self._runner.later(taking.give_back(post.keys, found.receipt, jobs))
            self.poke()
            raise
        if caller.fault is not None:
            raise caller.fault
        return caller

    def poke(self) -> None:
        _wake(self._poke)

    async def _drive(self) -> None:
        while (step := self._watch.next_step(self._loop.time())) is not None:
            if isinstance(step, Block):
                await self._block(step)
            else:
                await self._runner.run(turn(self._watch, step, self._loop.time))

    async def _block(self, step: Block) -> None:
        self._poke = self._loop.create_future()
        self._blocked_until = step.until
        try:
            key = None
            if self._line.keys != step.keys:
                if self._line.keys:
                    key = await self._line.end()
                elif step.keys:
                    await self._line.begin(step.keys)
            if not step.keys:
                self._watch.stopped()
            elif self._line.keys:
                key = await self._line.wait(step.until - self._loop.time(), self._poke)
            self._failures = 0
        except Fault:
            await asyncio.sleep(min(FIRST * 2**self._failures, LONGEST))
            self._failures = min(self._failures + 1, 10)
            self._watch.lost()
        else:
            if key is not None:
                self._watch.woken(key)
        finally:
            self._blocked_until = None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._line.drop()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
