"""Bells: what wakes a thread that waits."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


class WakeEvent:
    """Wakes one thread; rung twice is once. A ``threading.Event`` that Ctrl-C strikes while it is set stays locked for
    ever: its lock is taken in Python, this one in one step."""

    __slots__ = ("_lock",)

    sees_sockets = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it was rung already
            self._lock.release()

    def wait(self, seconds: float | None = None) -> None:
        """Until it rings, or the time is up."""
        if seconds is None:
            self._lock.acquire()
        elif seconds > 0:
            self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))


class SocketWakeEvent:
    """The same for a thread that waits for sockets, too."""

    sees_sockets = True

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def set(self) -> None:
        with suppress(OSError):  # it was rung often enough, or nobody waits any more
            self._writer.send(b".")

    def wait(self, seconds: float, sockets: Sequence[Any] = ()) -> None:
        """Until it rings, there is something to read from one of the sockets, or the time is up."""
        poll = select.poll()
        for one in (self._reader, *sockets):
            with suppress(ValueError, OSError):  # it was closed: whoever reads it finds out
                poll.register(one, select.POLLIN)
        poll.poll(min(max(seconds, 0) * 1000, 1e9))
        with suppress(OSError):
            while self._reader.recv(1024):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
