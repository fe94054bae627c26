"""The mover of an awaiting client: one task that keeps all queues moving that the client consumes, or was told to.

It begins with the first queue and ends with the client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tarry.clients.awaited.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.clients.shared_queues import CLOSING_S, LONGEST_SLEEP_S, PAUSE_S, ErrorLog
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.mover_state import MoverState

if TYPE_CHECKING:
    from tarry.clients.awaited.engine import Engine


class Mover:
    """Keeps queues moving, in one event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = MoverState(engine.origin.new_waiter_name())
        self._loop = asyncio.get_running_loop()
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._wakeup = asyncio.Event()
        self._closed = False
        self._troubles = ErrorLog()
        self._task: asyncio.Task[None] | None = None

    def add(self, queues: Iterable[QueueKeys]) -> None:
        """From now on these queues move."""
        fresh = [keys for keys in queues if self._state.add(keys)]
        if not fresh:
            return
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        self._wakeup.set()

    async def close(self) -> None:
        """Its seats are free, and others are called."""
        self._closed = True
        self._wakeup.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSING_S)
            self._task.cancel()
            await asyncio.wait({self._task})

    # ── the task ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        while not self._closed:
            try:
                await self._move_due()
                await self._subscribe()
                await self._wait()
                self._troubles.resolved("A queue")
            except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                self._troubles.report("A queue", fault)
                self._wakeup.clear()
                await self._pause(0 if self._closed else PAUSE_S)
        with suppress(TarryError, *CONNECTION_ERRORS):
            await self._engine.runner.send_batch(self._state.leave_requests())

    async def _move_due(self) -> None:
        """One pipeline, for all queues that are to be looked at."""
        due = self._state.due_queues(self._loop.time())
        if due:
            answers = await self._engine.runner.send_batch([queue.request for queue in due])
            for queue, answer in zip(due, answers, strict=True):
                self._state.on_answer(queue, answer, self._loop.time())
                if isinstance(answer, Exception):
                    self._troubles.report(queue.keys.ready.decode(), answer)
                else:
                    self._troubles.resolved(queue.keys.ready.decode())

    async def _subscribe(self) -> None:
        """Hears what its seats ask for; what cannot be heard now is tried again after the next look."""
        self._pubsub = pubsub = self._pubsub or self._engine.shared_part(PubSub)
        channels = self._state.channels()
        for channel in self._subscribers.keys() - channels:
            pubsub.unsubscribe(self._subscribers.pop(channel))
        for channel in channels - self._subscribers.keys():
            with suppress(TarryError):
                self._subscribers[channel] = await pubsub.subscribe(channel, (channel,), self._on_message, wait=False)

    def _on_message(self, channel: bytes, message: bytes) -> None:
        self._messages.append((channel, message))
        self._wakeup.set()

    async def _wait(self) -> None:
        """Until the next look is due, or something was heard: after the looks, whose answers know less."""
        self._wakeup.clear()
        while self._messages:
            self._state.on_message(*self._messages.popleft())
        if not self._closed:
            await self._pause(max(min(self._state.next_due() - self._loop.time(), LONGEST_SLEEP_S), 0))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wakeup.wait()
