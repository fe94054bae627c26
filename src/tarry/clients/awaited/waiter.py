"""The waiting callers, in tasks: one task steps the watch for all of them, as long as there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tarry.clients.awaited.runner import Runner
from tarry.clients.awaited.servers import CLOSING_S
from tarry.clients.awaited.wait_connections import TrackedWait, WaitConnections
from tarry.clients.config import UNANSWERED
from tarry.connections.awaited import BlpopConnection, Server
from tarry.connections.faults import Fault, ServerRefused, WrongNode
from tarry.core.patience import RetryDelay
from tarry.core.watch import BlockStep, Caller, Gate, Watch
from tarry.errors import Unavailable
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.watch_steps import WaitQueueKey, perform_step


class Waiter:
    """All waiting callers of one server (on a Cluster: of one slot), in one event loop."""

    def __init__(self, runner: Runner, name: bytes, connections: WaitConnections) -> None:
        self._runner = runner
        self._connections = connections
        connections.waiters.add(self)
        self._connection: BlpopConnection | TrackedWait | None = None
        self._last_server: Server | None = None
        self._watch = Watch(name)
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._wakeup: asyncio.Future[None] = self._loop.create_future()
        self._blocked_until: float | None = None
        self._back_off = RetryDelay()
        self._closed = False

    async def wait(
        self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None = None
    ) -> Caller:
        """Waits for jobs; returns the caller, served or at the end of its time. Raises a ``TarryError``."""
        if self._closed:
            raise Unavailable(UNANSWERED)
        served: asyncio.Future[None] = self._loop.create_future()
        deadline = self._loop.time() + (0 if self._connections.ends_waits else seconds)
        caller = Caller(max_jobs, deadline, lambda: _wake_sleeper(served), gate)
        fresh = self._watch.enter(caller, queue_keys)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._drive())
        elif self._blocked_until is not None and (fresh or caller.deadline < self._blocked_until):
            self.interrupt()
        try:
            await served
        except asyncio.CancelledError:
            self._watch.leave(caller)
            if caller.result is not None:
                queue, found, jobs = caller.result
                self._runner.perform_if_possible(pop.give_back_reply(queue.keys, found.receipt, jobs))
            self.interrupt()
            raise
        if caller.fault is not None:
            raise caller.fault.with_traceback(None)
        return caller

    def end_waits(self) -> None:
        """Ends the time of all callers: each gets what one last pop finds."""
        for caller in self._watch:
            caller.deadline = min(caller.deadline, self._loop.time())
        self.interrupt()

    def interrupt(self) -> None:
        _wake_sleeper(self._wakeup)

    async def _drive(self) -> None:
        try:
            while (step := self._watch.next_step(self._loop.time())) is not None:
                if isinstance(step, BlockStep):
                    await self._block(step)
                else:
                    await self._runner.run(perform_step(self._watch, step, self._loop.time))
        except BaseException as fault:  # whatever it is, the callers get it
            self._watch.fail_all(fault if isinstance(fault, Exception) else Unavailable(UNANSWERED))
            if not isinstance(fault, Exception):
                raise
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                try:
                    if connection.keys or self._closed:  # it was cancelled, or its connection is of no more use
                        await connection.drop()
                finally:
                    self._connections.give_back(connection)

    async def _block(self, step: BlockStep) -> None:
        self._wakeup = self._loop.create_future()
        self._blocked_until = step.until
        try:
            over, key = await self._await_token(step)
            self._back_off.reset()
        except ServerRefused as refusal:  # the server refuses the wait, and says why
            self._watch.fail_all(refusal.error)
        except Fault as fault:
            await self._pause(fault, step.until)
            self._watch.connection_lost()
        else:
            if over:
                self._watch.token_received(key)
        finally:
            self._blocked_until = None

    async def _await_token(self, step: BlockStep) -> tuple[bool, bytes | None]:
        """Returns whether the wait on the server is over, and the key whose token came. Raises a ``Fault``."""
        connection = self._connection
        if step.abandon and connection is not None:
            await connection.drop()
        if connection is not None and connection.keys and connection.keys != step.keys:
            return True, await connection.end()
        if not step.keys:
            return True, None
        if connection is None:
            connection = self._connection = self._connections.borrow(self._last_server)
        if not connection.keys:
            self._last_server = await self._runner.server_of(step.keys[0])
            await connection.connect_to(self._last_server)
            await connection.begin(step.keys)
        return await connection.wait(step.until - self._loop.time(), self._wakeup)

    async def _pause(self, fault: Fault, until: float) -> None:
        """Waits before the next try, but not past the moment at which there is something else to do."""
        pause = self._back_off.next_delay()
        await asyncio.wait({self._wakeup}, timeout=max(min(pause, until - self._loop.time()), 0))
        if isinstance(fault, WrongNode):
            with suppress(Unavailable, Fault):
                await self._runner.refresh()

    async def close(self) -> None:
        """Gives the error to all callers, and hands back seats and tokens."""
        self._closed = True
        self._watch.fail_all(Unavailable(UNANSWERED))
        if self._task is not None and not self._task.done():
            self.interrupt()
            await asyncio.wait({self._task}, timeout=CLOSING_S)
            self._task.cancel()
            await asyncio.wait({self._task})


def _wake_sleeper(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
