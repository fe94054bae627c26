"""The mover of a blocking client: one thread that keeps all queues moving that the client consumes.

It begins with the first wait for a queue and ends with the client, or with the process: a handler that takes long does not
stop it.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tarry.clients.queueing import CLOSING_S
from tarry.errors import TarryError
from tarry.links.blocking import pack
from tarry.links.faults import TROUBLES
from tarry.verbs.delayed.keeping import Keeper, look
from tarry.verbs.delayed.moving import transfer
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.sync.engine import Engine

logger = logging.getLogger("tarry")
LONGEST_SLEEP_S = 1.0


class Mover:
    """Keeps queues moving. ``keep`` may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._runner = engine.runner
        self._keeper = Keeper(engine.origin.watcher())
        self._lock = threading.Lock()
        self._line: Any = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, keys: QueueKeys) -> None:
        """From now on this queue moves."""
        with self._lock:
            if not self._keeper.add(keys):
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tarry-mover", daemon=True)
                self._thread.start()
            else:
                self._tell((b"SUBSCRIBE", keys.channel))

    def close(self) -> None:
        """Others take over at their next look-around."""
        self._closed.set()
        with self._lock:
            self._tell((b"PING",))
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSING_S)

    def _tell(self, words: tuple[bytes, ...]) -> None:
        """The answer wakes the thread. Without a line it is awake, or will be."""
        if self._line is not None:
            with suppress(*TROUBLES):
                self._line.send_packed_command([pack(words)], check_health=False)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._look()
                self._listen()
            except Exception as fault:  # noqa: BLE001  # whatever it is, the queues must go on
                logger.warning("A queue could not be moved, trying again: %s", fault)
                self._hang_up()
                self._closed.wait(LONGEST_SLEEP_S)
        with suppress(TarryError, *TROUBLES):
            for kept in self._keeper.moving:
                self._runner.perform(transfer(kept.keys, me=kept.me))
        self._hang_up()

    def _look(self) -> None:
        with self._lock:
            due = self._keeper.due(time.monotonic())
        for kept in due:
            try:
                self._runner.run(look(kept, self._keeper, time.monotonic))
            except TarryError as fault:
                logger.warning("The queue %s could not be moved, trying again: %s", kept.keys.ready.decode(), fault)

    def _listen(self) -> None:
        line: Any = self._line or self._call()
        if line is None:
            self._closed.wait(max(min(self._keeper.until() - time.monotonic(), LONGEST_SLEEP_S), 0.01))
            return
        try:
            wait = min(self._keeper.until() - time.monotonic(), LONGEST_SLEEP_S)
            while line.can_read(max(wait, 0)):
                reply = line.read_response()
                if reply[0] == b"message":
                    self._keeper.heard(reply[1], reply[2])
                elif reply[0] == b"subscribe":
                    return
                wait = 0
        except TROUBLES:
            self._hang_up()

    def _call(self) -> Any:
        """Subscribes to all channels; what was said before is made up for by a look."""
        try:
            line = self._runner.server_of(self._keeper.channels[0]).connect()
            with self._lock:
                self._line = line
                self._tell((b"SUBSCRIBE", *self._keeper.channels))
        except (TarryError, *TROUBLES):
            return None
        with self._lock:
            self._keeper.deaf()
        return line

    def _hang_up(self) -> None:
        with self._lock:
            line, self._line = self._line, None
        if line is not None:
            line.disconnect()
