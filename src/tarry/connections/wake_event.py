"""Events that wake a waiting thread."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


class WakeEvent:
    """Wakes one thread; set twice counts once. A ``threading.Event`` that Ctrl-C interrupts in ``set`` stays locked
    forever: it takes its lock in Python code. This one releases a lock, in one step."""

    __slots__ = ("_lock",)

    sees_sockets = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it was set already
            self._lock.release()

    def wait(self, seconds: float | None = None) -> None:
        """Waits until it is set, or the time is up."""
        if seconds is None:
            self._lock.acquire()
        elif seconds > 0:
            self._lock.acquire(timeout=min(seconds, threading.TIMEOUT_MAX))


class SocketWakeEvent:
    """Wakes one thread that waits for sockets, too."""

    sees_sockets = True

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def set(self) -> None:
        with suppress(OSError):  # the buffer is full, or it was closed
            self._writer.send(b".")

    def wait(self, seconds: float, sockets: Sequence[Any] = ()) -> None:
        """Waits until it is set, one of the sockets can be read, or the time is up."""
        poll = select.poll()
        for readable in (self._reader, *sockets):
            with suppress(ValueError, OSError):  # it was closed: the next read raises
                poll.register(readable, select.POLLIN)
        poll.poll(min(max(seconds, 0) * 1000, 1e9))
        with suppress(OSError):
            while self._reader.recv(1024):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
