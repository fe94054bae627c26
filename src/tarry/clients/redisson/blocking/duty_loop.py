# Made from src/tarry/clients/redisson/awaited/duty_loop.py by tools/blocking.py: change that file, then `make blocking`.
"""The duties of a blocking client: it moves the queues that it consumes, and evicts from the maps that it has open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import count

from tarry.clients.blocking.background_loop import BackgroundLoop
from tarry.clients.blocking.interfaces import SharedPartHost
from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.connections.clock import now
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.core.requests import Request
from tarry.errors import TarryError
from tarry.verbs.redisson.duties import Duty, DutyList


class DutyLoop(BackgroundLoop):
    """All duties of a client. It starts with the first duty and ends with the last one, or with the client.

    ``remove`` may be called in any thread, and by a finalizer.
    """

    NAME = "tarry-duties"

    def __init__(self, engine: SharedPartHost) -> None:
        super().__init__()
        self.client_id = engine.config.new_waiter_name()
        self._engine = engine
        self._duties = DutyList()
        self._users = count(1)
        self._removed: deque[tuple[bytes, int]] = deque()
        self._messages: deque[tuple[bytes, bytes]] = deque()
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}

    def add(self, duties: Iterable[Duty]) -> int:
        """Adds duties for a new user. Returns the user's number."""
        with self._mutex:
            user = next(self._users)
            fresh = [duty for duty in duties if self._duties.add(duty, user)]
            if fresh:
                self._start()
                self._wakeup.set()
        return user

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether the user's duty is there."""
        return self._duties.is_used(key, user)

    def remove(self, key: bytes, user: int) -> None:
        """Removes a user. A finalizer may run anywhere, so this locks nothing."""
        self._removed.append((key, user))
        self._wakeup.set_from_thread()

    # ── in the background ────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_needed(self) -> bool:
        return len(self._duties) > 0

    def _work(self) -> float:
        self._remove_dropped()
        self._look()
        self._subscribe()
        with self._mutex:
            while self._messages:  # after the looks, whose answers are older
                self._duties.on_message(*self._messages.popleft())
            return self._duties.next_due()

    def _remove_dropped(self) -> None:
        requests: list[Request] = []
        while self._removed:
            with self._mutex:
                duty = self._duties.remove(*self._removed.popleft())
            if duty is not None and (request := duty.leave_request()) is not None:
                requests.append(request)
        self._leave(requests)

    def _leave(self, requests: list[Request]) -> None:
        """Gives seats back, which calls other clients."""
        if requests:
            with suppress(TarryError, *CONNECTION_ERRORS):
                self._engine.runner.send_batch(requests)

    def _look(self) -> None:
        """Sends one pipeline, for all duties that are due."""
        with self._mutex:
            due = self._duties.due(now())
        if not due:
            return
        answers = self._engine.runner.send_batch([duty.request for duty in due])
        with self._mutex:
            for duty, answer in zip(due, answers, strict=True):
                self._duties.on_answer(duty, answer, now())
                if isinstance(answer, Exception):
                    self._errors.report(duty.name, duty.verb_past, answer)
                else:
                    self._errors.resolved(duty.name)

    def _subscribe(self) -> None:
        """Subscribes to the channels that its duties need; a failed subscription is tried again after the next look."""
        with self._mutex:
            channels = self._duties.channels()
        if channels or self._subscribers:
            self._pubsub = pubsub = self._pubsub or self._engine.shared_part(PubSub)
            for channel in self._subscribers.keys() - channels:
                pubsub.unsubscribe(self._subscribers.pop(channel))
            for channel in channels - self._subscribers.keys():
                with suppress(TarryError):
                    self._subscribers[channel] = pubsub.subscribe(channel, (channel,), self._on_message, wait=False)

    def _on_message(self, channel: bytes, message: bytes) -> None:
        self._messages.append((channel, message))
        self._wakeup.set()

    def _end(self) -> None:
        with self._mutex:
            requests = self._duties.leave_requests()
        self._leave(requests)
