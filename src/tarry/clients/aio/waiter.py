"""Those who wait, in tasks: one task steps the watch for all of them, as long as anybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarry.clients.aio.runner import Runner
from tarry.errors import TarryError
from tarry.idea.patience import FIRST, LONGEST
from tarry.idea.watch import Block, Caller, GiveBack, Leave, Look, Step, Watch
from tarry.links.awaiting import Server, WaitingLine
from tarry.links.faults import Fault
from tarry.verbs.jobs import taking
from tarry.words.keys import TopicKeys


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

    async def wait(self, want: int, seconds: float, posts: Sequence[tuple[TopicKeys, bytes, bytes]]) -> Caller:
        """Waits for jobs; answers the caller, served or at the end of its time. Raises a ``TarryError``."""
        served: asyncio.Future[None] = self._loop.create_future()
        caller = Caller(want, self._loop.time() + seconds, lambda: served.done() or served.set_result(None))
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
        if not self._poke.done():
            self._poke.set_result(None)

    async def _drive(self) -> None:
        while (step := self._watch.next_step(self._loop.time())) is not None:
            await self._perform(step)

    async def _perform(self, step: Step) -> None:
        match step:
            case Look(post, want, need):
                call = taking.pop(post.keys, want, ttr=post.ttr, holder=post.holder, need=need, me=post.me)
                try:
                    found = await self._runner.perform(call)
                except TarryError as fault:
                    self._watch.failed(step, fault)
                else:
                    self._watch.looked(step, found, self._loop.time())
            case Leave(keys, me):
                await self._try(taking.leave(keys, me))
            case GiveBack(post, found, jobs):
                await self._try(taking.give_back(post.keys, found.receipt, jobs))
            case Block():
                await self._block(step)

    async def _try(self, call: taking.Courtesy) -> None:
        try:
            await self._runner.perform(call)
        except TarryError:
            pass  # what was not handed back comes back after its TTR, or by the others' look-around

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
