"""The mover of a blocking client: one thread that keeps all queues moving that the client consumes, or was told to.

It begins with the first queue and ends with the client, or with the process: a handler that takes long does not stop it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from tarry.clients.hearing import Ear
from tarry.clients.queueing import CLOSING_S, LONGEST_SLEEP_S, PAUSE_S, Troubles
from tarry.clients.sync.hearing import Hearing
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.errors import TarryError
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.mover_state import MoverState

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine


class Mover:
    """Keeps queues moving. ``keep`` may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._keeper = MoverState(engine.origin.watcher())
        self._lock = threading.Lock()
        self._hearing: Hearing | None = None
        self._ears: dict[bytes, Ear] = {}
        self._heard: deque[tuple[bytes, bytes]] = deque()
        self._poke = threading.Event()
        self._closed = False
        self._troubles = Troubles()
        self._thread: threading.Thread | None = None

    def keep(self, queues: Iterable[QueueKeys]) -> None:
        """From now on these queues move."""
        with self._lock:
            fresh = [keys for keys in queues if self._keeper.add(keys)]
            if not fresh:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tarry-mover", daemon=True)
                self._thread.start()
        self._poke.set()

    def close(self) -> None:
        """Its seats are free, and others are called."""
        self._closed = True
        self._poke.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closed:
            try:
                self._look()
                self._listen()
                self._wait()
                self._troubles.over("A queue")
            except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                self._troubles.tell("A queue", fault)
                self._poke.clear()
                self._poke.wait(0 if self._closed else PAUSE_S)
        with self._lock:
            farewells = self._keeper.leave_requests()
        with suppress(TarryError, *CONNECTION_ERRORS):
            self._engine.runner.perform_all(farewells)

    def _look(self) -> None:
        """One pipeline, for all queues that are to be looked at."""
        with self._lock:
            looks = self._keeper.due_queues(time.monotonic())
        if looks:
            answers = self._engine.runner.perform_all([kept.request for kept in looks])
            with self._lock:
                for kept, answer in zip(looks, answers, strict=True):
                    self._keeper.on_answer(kept, answer, time.monotonic())
                    if isinstance(answer, Exception):
                        self._troubles.tell(kept.keys.ready.decode(), answer)
                    else:
                        self._troubles.over(kept.keys.ready.decode())

    def _listen(self) -> None:
        """Hears what its seats ask for; what cannot be heard now is tried again after the next look."""
        self._hearing = hearing = self._hearing or self._engine.part(Hearing)
        with self._lock:
            wanted = self._keeper.channels()
        for channel in self._ears.keys() - wanted:
            hearing.close_ear(self._ears.pop(channel))
        for channel in wanted - self._ears.keys():
            with suppress(TarryError):
                self._ears[channel] = hearing.hear(channel, (channel,), self._hear, wait=False)

    def _hear(self, channel: bytes, message: bytes) -> None:
        self._heard.append((channel, message))
        self._poke.set()

    def _wait(self) -> None:
        """Until the next look is due, or something was heard: after the looks, whose answers know less."""
        self._poke.clear()
        with self._lock:
            while self._heard:
                self._keeper.on_message(*self._heard.popleft())
            until = self._keeper.next_due()
        if not self._closed:
            self._poke.wait(max(min(until - time.monotonic(), LONGEST_SLEEP_S), 0))
