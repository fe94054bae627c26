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

from tarry.clients.hearing import Ear
from tarry.clients.sync.hearing import Hearing
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import AdaptivePolicy
from tarry.verbs.mapcache.evictor_state import EvictedMap, EvictorState

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

logger = logging.getLogger("tarry")
CLOSING_S = 5.0
PAUSE_S = 1.0
LONGEST_S = 3600.0


class Evictor:
    """Keeps maps. ``keep`` and ``drop`` may be called from any thread, ``drop`` from a finalizer, too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._keeper = EvictorState(engine.origin.watcher())
        self._changed = threading.Condition()
        self._dropped: deque[tuple[bytes, int]] = deque()
        self._hearing: Hearing | None = None
        self._ears: dict[bytes, Ear] = {}
        self._users = count(1)
        self._woken = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def keep(self, context: MapContext[Any, Any], rule: AdaptivePolicy | None) -> int:
        """From now on this map is kept, for one user of it more; answers which."""
        with self._changed:
            user = next(self._users)
            self._keeper.add(context, rule, user, time.monotonic())
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="tarry-evictor", daemon=True)
                self._thread.start()
            self._woken = True
            self._changed.notify()
        return user

    def keeps(self, place: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return self._keeper.is_used(place, user)

    def drop(self, place: bytes, user: int) -> None:
        """This user does without. A finalizer may run anywhere, so nothing else is locked where this lock is held."""
        self._dropped.append((place, user))
        with self._changed:
            self._woken = True
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
                    self._woken = False  # whatever comes from here on is seen in the next round, if not in this one
                self._let_go()
                with self._changed:
                    if self._closed or not len(self._keeper):
                        self._thread = None
                        break
                self._listen()
                self._look()
                self._wait()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the maps must be kept
                logger.warning("A map could not be kept, trying again: %s", fault)
                with self._changed:
                    self._changed.wait(PAUSE_S)
        for kept in self._keeper.maps:
            self._leave(kept)

    def _look(self) -> None:
        with self._changed:
            due = self._keeper.due(time.monotonic())
        if not due:
            return
        runner, sent = self._engine.runner, time.monotonic()
        for kept, answer in zip(due, runner.perform_all([kept.first_step() for kept in due]), strict=True):
            try:
                if isinstance(answer, TarryError):
                    with self._changed:
                        self._keeper.failed(kept, time.monotonic())
                    raise answer
                with self._changed:
                    rest = self._keeper.on_step(kept, answer, sent, time.monotonic)
                if rest is not None:
                    runner.run(rest)
            except TarryError as fault:
                logger.warning("The map %s could not be kept, trying again: %s", kept.context.name, fault)

    def _wait(self) -> None:
        with self._changed:
            wait = self._keeper.next_due() - time.monotonic()
            if wait > 0 and len(self._keeper) and not self._woken and not self._closed:
                self._changed.wait(min(wait, LONGEST_S))

    def _listen(self) -> None:
        """Hears of entries that end sooner, in all maps that are kept."""
        self._hearing = self._hearing or self._engine.part(Hearing)
        for kept in self._keeper.maps:
            place = kept.context.keys.hints
            if kept.policy is None and place not in self._ears:
                self._ears[place] = self._hearing.hear(kept.context.keys.entries, (place,), self._heard, wait=False)

    def _heard(self, channel: bytes, message: bytes) -> None:
        with self._changed:
            if self._keeper.on_message(channel, message):
                self._woken = True
                self._changed.notify()

    def _let_go(self) -> None:
        while self._dropped:
            with self._changed:
                kept = self._keeper.remove(*self._dropped.popleft())
            if kept is not None:
                self._leave(kept)

    def _leave(self, kept: EvictedMap) -> None:
        """Gives the seat back, and hears no more of the map."""
        with suppress(TarryError, *CONNECTION_ERRORS):
            ear = self._ears.pop(kept.context.keys.hints, None)
            if ear is not None and self._hearing is not None:
                self._hearing.close_ear(ear)
            farewell = kept.leave_request()
            if farewell is not None:
                self._engine.runner.perform(farewell)
