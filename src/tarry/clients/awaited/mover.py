"""The mover of an awaited client. It moves the queues that the client consumes, and those of ``keep_moving``.

It starts with the first queue and ends with the client.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tarry.clients.awaited.concurrency import Background, Mutex, Signal
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
    """Moves what is due in all queues of a client, in one task."""

    # blocking: Moves what is due in all queues of a client, in one thread: a handler that takes long does not stop it.

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = MoverState(engine.origin.new_waiter_name())
        self._mutex = Mutex()
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._wakeup = Signal()
        self._closed = False
        self._troubles = ErrorLog()
        self._background: Background | None = None

    def add(self, queues: Iterable[QueueKeys]) -> None:
        """From now on the due elements of these queues are moved."""
        with self._mutex:
            fresh = [keys for keys in queues if self._state.add(keys)]
            if fresh and self._background is None:
                self._background = Background("tarry-mover", self._run)
        if fresh:
            self._wakeup.set()

    async def close(self) -> None:
        """Gives its seats back, which calls other clients."""
        self._closed = True
        self._wakeup.set()
        if self._background is not None:
            await self._background.join(CLOSING_S)

    # ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

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
                await self._wakeup.wait(0 if self._closed else PAUSE_S)
        with self._mutex:
            requests = self._state.leave_requests()
        with suppress(TarryError, *CONNECTION_ERRORS):
            await self._engine.runner.send_batch(requests)

    async def _move_due(self) -> None:
        """Sends one pipeline, for all queues that are due."""
        with self._mutex:
            due = self._state.due_queues(time.monotonic())
        if due:
            answers = await self._engine.runner.send_batch([queue.request for queue in due])
            with self._mutex:
                for queue, answer in zip(due, answers, strict=True):
                    self._state.on_answer(queue, answer, time.monotonic())
                    if isinstance(answer, Exception):
                        self._troubles.report(queue.keys.ready.decode(), answer)
                    else:
                        self._troubles.resolved(queue.keys.ready.decode())

    async def _subscribe(self) -> None:
        """Subscribes to the channels that its seats need; a failed subscription is tried again after the next look."""
        self._pubsub = pubsub = self._pubsub or self._engine.shared_part(PubSub)
        with self._mutex:
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
        """Waits until the next look is due, or a message has come. Messages are used after the looks, whose answers are older."""
        self._wakeup.clear()
        with self._mutex:
            while self._messages:
                self._state.on_message(*self._messages.popleft())
            until = self._state.next_due()
        if not self._closed:
            await self._wakeup.wait(max(min(until - time.monotonic(), LONGEST_SLEEP_S), 0))
