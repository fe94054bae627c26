"""The mover of a blocking client: one thread that keeps all queues moving that the client consumes, or was told to.

It begins with the first queue and ends with the client, or with the process: a handler that takes long does not stop it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.queueing import CLOSING_S, LONGEST_SLEEP_S, UNHEARD_S, tell_of_trouble
from tarry.errors import TarryError
from tarry.links.blocking import pack
from tarry.links.faults import TROUBLES
from tarry.verbs.delayed.keeping import Keeper
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine


class Mover:
    """Keeps queues moving. ``keep`` may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._keeper = Keeper(engine.origin.watcher())
        self._lock = threading.Lock()
        self._line: Any = None
        self._heard: set[bytes] = set()
        self._called = 0.0
        self._poke = threading.Event()
        self._closed = False
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
        self._wake()

    def close(self) -> None:
        """Its seats are free, and others are called."""
        self._closed = True
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    def _wake(self) -> None:
        self._poke.set()
        with self._lock:
            self._say([(b"PING",)])  # its answer ends the listening

    def _say(self, commands: list[tuple[bytes, ...]]) -> None:
        if self._line is not None and commands:
            with suppress(*TROUBLES):  # then the next reading is the connection's end
                self._line.send_packed_command(list(map(pack, commands)), check_health=False)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closed:
            try:
                self._look()
                self._listen()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                tell_of_trouble("A queue", fault)
                self._hang_up()
                self._pause(UNHEARD_S)
        with self._lock:
            farewells = self._keeper.farewells()
        with suppress(TarryError, *TROUBLES):
            self._runner.perform_all(farewells)
        self._hang_up()

    def _look(self) -> None:
        """One pipeline, for all queues that are to be looked at."""
        with self._lock:
            looks = self._keeper.requests(time.monotonic())
        if looks:
            answers = self._runner.perform_all([kept.request for kept in looks])
            with self._lock:
                for kept, answer in zip(looks, answers, strict=True):
                    self._keeper.answered(kept, answer, time.monotonic())
                    if isinstance(answer, Exception):
                        tell_of_trouble(kept.keys.ready.decode(), answer)

    def _listen(self) -> None:
        self._poke.clear()
        if self._line is None and not self._call():
            self._pause(min(self._left(), UNHEARD_S))
            return
        with self._lock:
            self._say(self._keeper.words(self._heard))
        line: Any = self._line  # nobody else hangs up
        try:
            wait = self._left()
            while line.can_read(wait):
                reply = line.read_response()
                with self._lock:
                    self._keeper.told(reply)
                wait = 0
        except TROUBLES:
            self._hang_up()
            if time.monotonic() - self._called < UNHEARD_S:  # perhaps nobody may listen here: looking goes on
                self._pause(min(self._left(), UNHEARD_S))

    def _left(self) -> float:
        with self._lock:
            until = self._keeper.until()
        return max(min(until - time.monotonic(), LONGEST_SLEEP_S), 0)

    def _pause(self, seconds: float) -> None:
        self._poke.wait(max(seconds, 0.01))

    def _call(self) -> bool:
        """A new line, on which nothing is heard yet."""
        try:
            line = self._runner.server_of(self._keeper.somewhere).connect()
        except (TarryError, *TROUBLES):
            return False
        with self._lock:
            self._line, self._heard, self._called = line, set(), time.monotonic()
        return True

    def _hang_up(self) -> None:
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.disconnect()
