"""Listening on channels, blocking: one connection and one thread a server, for all of a client that waits there.

The thread begins with the first channel and ends when there has been none for a while. Whenever it listens anew it rings
for all channels: what was said before is made up for by a look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import redis.exceptions as driver

from tarry.clients.sync.runner import Runner
from tarry.errors import TarryError
from tarry.idea.patience import FIRST, LONGEST
from tarry.links.blocking import Server, pack
from tarry.links.faults import TROUBLES

Ring = Callable[[], None]
QUIET_S = 5.0
"""After so long without a word the server is asked whether it is there; after as long again it is not."""
LINGER_S = 5.0


class Ears:
    """All channels of a client."""

    def __init__(self, runner: Runner, *, cluster: bool) -> None:
        self._runner = runner
        self._cluster = cluster
        self._lock = threading.Lock()
        self._ears: dict[Server, _Ear] = {}
        self._where: dict[tuple[bytes, Ring], _Ear] = {}

    def join(self, channel: bytes, ring: Ring) -> None:
        """Rings when it listens to the channel, and at each word."""
        server = self._runner.server_of(channel)
        with self._lock:
            ear = self._ears.get(server)
            if ear is None:
                ear = self._ears[server] = _Ear(self._runner, server, self._cluster)
            self._where[channel, ring] = ear
        ear.join(channel, ring)

    def leave(self, channel: bytes, ring: Ring) -> None:
        with self._lock:
            ear = self._where.pop((channel, ring), None)
        if ear is not None:
            ear.leave(channel, ring)

    def close(self) -> None:
        for ear in self._ears.values():
            ear.close()


class _Ear:
    def __init__(self, runner: Runner, server: Server, cluster: bool) -> None:
        self._runner = runner
        self._server = server
        self._orders = (b"SUBSCRIBE", b"SSUBSCRIBE") if cluster else (b"SUBSCRIBE",)
        self._lock = threading.Lock()
        self._rings: dict[bytes, list[Ring]] = {}
        self._heard: set[bytes] = set()
        self._line: Any = None
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._closed = threading.Event()

    def join(self, channel: bytes, ring: Ring) -> None:
        with self._lock:
            self._rings.setdefault(channel, []).append(ring)
            heard = channel in self._heard
            if not heard:
                self._tell(*((order, channel) for order in self._orders))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tarry-ears", daemon=True)
                self._thread.start()
        if heard:
            ring()

    def leave(self, channel: bytes, ring: Ring) -> None:
        with self._lock:
            rings = self._rings.get(channel, [])
            if ring in rings:
                rings.remove(ring)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._tell((b"PING",))
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(QUIET_S)

    def _tell(self, *orders: tuple[bytes, ...]) -> None:
        """Without a line all channels are told when there is one."""
        if self._line is not None:
            with suppress(*TROUBLES):  # then the thread loses the line, and makes another
                self._line.send_packed_command([pack(order) for order in orders], check_health=False)

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        idle_since: float | None = None
        while not self._closed.is_set():
            try:
                self._listen()
                self._failures = 0
            except (TarryError, *TROUBLES):
                self._hang_up()
                self._closed.wait(min(FIRST * 2**self._failures, LONGEST))
                self._failures = min(self._failures + 1, 10)
                continue
            now = time.monotonic()
            idle_since = (idle_since or now) if self._drop_idle() else None
            if idle_since is not None and now - idle_since > LINGER_S and self._ended():
                break
        self._hang_up()

    def _ended(self) -> bool:
        with self._lock:
            if self._rings:
                return False
            self._thread = None
            return True

    def _drop_idle(self) -> bool:
        """Leaves channels that nobody wants to hear; answers whether that is all of them."""
        with self._lock:
            idle = [channel for channel in self._heard if not self._rings.get(channel)]
            for channel in idle:
                self._heard.discard(channel)
                self._rings.pop(channel, None)
                self._tell(*((order.replace(b"SUB", b"UNSUB"), channel) for order in self._orders))
            return not any(self._rings.values())

    def _listen(self) -> None:
        """Hears until there has been silence for a while."""
        line = self._line or self._call()
        if not line.can_read(QUIET_S):
            self._tell((b"PING",))
            if not line.can_read(QUIET_S):
                raise driver.TimeoutError("the listening connection has been silent for too long")
            line.read_response()
            return
        while line.can_read(QUIET_S) and not self._closed.is_set():
            try:
                reply = line.read_response(disconnect_on_error=False)
            except driver.ResponseError as fault:
                if "MOVED" in str(fault):
                    raise
                continue  # a server that knows no channels of shards
            if reply[0] in (b"message", b"smessage"):
                self._ring(reply[1])
            elif reply[0] in (b"subscribe", b"ssubscribe"):
                with self._lock:
                    self._heard.add(reply[1])
                self._ring(reply[1])

    def _ring(self, channel: bytes) -> None:
        with self._lock:
            rings = list(self._rings.get(channel, ()))
        for ring in rings:
            ring()

    def _call(self) -> Any:
        if self._failures > 1:
            with suppress(TarryError):
                self._runner.refresh()
        with self._lock:
            channels = list(self._rings)
        if channels:
            self._server = self._runner.server_of(channels[0])
        line = self._server.connect()
        with self._lock:
            self._line = line
            self._heard = set()
            for channel in self._rings:
                self._tell(*((order, channel) for order in self._orders))
        return line

    def _hang_up(self) -> None:
        with self._lock:
            line, self._line, self._heard = self._line, None, set()
        if line is not None:
            line.disconnect()
