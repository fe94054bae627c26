"""The evictor of a blocking client: one thread that keeps all its maps, and looks at all that are due in one round trip.

It begins with the first verb of the first map and ends with the last handle, or with the client.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import AdaptivePolicy
from tarry.verbs.mapcache.evictor_state import EvictedMap, EvictorState

if TYPE_CHECKING:
    from tarry.clients.blocking.engine import Engine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0
PAUSE_S = 1.0
LONGEST_SLEEP_S = 3600.0


class Evictor:
    """Keeps maps. ``keep`` and ``drop`` may be called from any thread, ``drop`` from a finalizer, too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = EvictorState(engine.origin.new_waiter_name())
        self._changed = threading.Condition()
        self._removed: deque[tuple[bytes, int]] = deque()
        self._pubsub: PubSub | None = None
        self._subscribers: dict[bytes, Subscriber] = {}
        self._users = count(1)
        self._wakeup = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, context: MapContext[Any, Any], policy: AdaptivePolicy | None) -> int:
        """From now on this map is kept, for one user of it more; answers which."""
        with self._changed:
            user = next(self._users)
            self._state.add(context, policy, user, time.monotonic())
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="tarry-evictor", daemon=True)
                self._thread.start()
            self._wakeup = True
            self._changed.notify()
        return user

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return self._state.is_used(key, user)

    def remove(self, key: bytes, user: int) -> None:
        """This user does without. A finalizer may run anywhere, so nothing else is locked where this lock is held."""
        self._removed.append((key, user))
        with self._changed:
            self._wakeup = True
            self._changed.notify()

    def close(self) -> None:
        """Others take over at once."""
        with self._changed:
            self._closed = True
            thread = self._thread
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(CLOSING_S)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while True:
            try:
                with self._changed:
                    self._wakeup = False  # whatever comes from here on is seen in the next round, if not in this one
                self._remove_dropped()
                with self._changed:
                    if self._closed or not len(self._state):
                        self._thread = None
                        break
                self._subscribe()
                self._evict_due()
                self._wait()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the maps must be kept
                logger.warning("A map could not be kept, trying again: %s", fault)
                with self._changed:
                    self._changed.wait(PAUSE_S)
        for evicted_map in self._state.maps:
            self._leave_map(evicted_map)

    def _evict_due(self) -> None:
        with self._changed:
            due = self._state.due(time.monotonic())
        if not due:
            return
        runner, sent = self._engine.runner, time.monotonic()
        for evicted_map, answer in zip(
            due, runner.send_batch([evicted_map.first_step() for evicted_map in due]), strict=True
        ):
            try:
                if isinstance(answer, TarryError):
                    with self._changed:
                        self._state.failed(evicted_map, time.monotonic())
                    raise answer
                with self._changed:
                    rest = self._state.on_step(evicted_map, answer, sent, time.monotonic)
                if rest is not None:
                    runner.run(rest)
            except TarryError as fault:
                logger.warning("The map %s could not be kept, trying again: %s", evicted_map.context.name, fault)

    def _wait(self) -> None:
        with self._changed:
            wait = self._state.next_due() - time.monotonic()
            if wait > 0 and len(self._state) and not self._wakeup and not self._closed:
                self._changed.wait(min(wait, LONGEST_SLEEP_S))

    def _subscribe(self) -> None:
        """Hears of entries that end sooner, in all maps that are kept."""
        self._pubsub = self._pubsub or self._engine.shared_part(PubSub)
        for evicted_map in self._state.maps:
            place = evicted_map.context.keys.hints
            if evicted_map.policy is None and place not in self._subscribers:
                self._subscribers[place] = self._pubsub.subscribe(
                    evicted_map.context.keys.entries, (place,), self._on_message, wait=False
                )

    def _on_message(self, channel: bytes, message: bytes) -> None:
        with self._changed:
            if self._state.on_message(channel, message):
                self._wakeup = True
                self._changed.notify()

    def _remove_dropped(self) -> None:
        while self._removed:
            with self._changed:
                evicted_map = self._state.remove(*self._removed.popleft())
            if evicted_map is not None:
                self._leave_map(evicted_map)

    def _leave_map(self, evicted_map: EvictedMap) -> None:
        """Gives the seat back, and hears no more of the map."""
        with suppress(TarryError, *CONNECTION_ERRORS):
            subscriber = self._subscribers.pop(evicted_map.context.keys.hints, None)
            if subscriber is not None and self._pubsub is not None:
                self._pubsub.unsubscribe(subscriber)
            request = evicted_map.leave_request()
            if request is not None:
                self._engine.runner.perform(request)
