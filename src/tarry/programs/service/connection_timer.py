"""The time that a connection may take, by what it waits for.

HEAD        the client sends a head: 10 s from its first byte, or from the connection
RESPONSE    a response is open: a handler works, a pop waits, a stream runs
LAST        the last response was sent: the client has 10 s to read it and to end the connection
IDLE        the next request: uvicorn's keep-alive timeout
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

HEAD_TIMEOUT_S = 10.0
"""A head must arrive within this time."""
LAST_S = 10.0
"""How long the client may take to read the last response, and to end the connection."""


class Phase(Enum):
    """A connection's phase, by what it waits for."""

    HEAD, RESPONSE, LAST, IDLE = range(4)


class ConnectionTimer:
    """The timer of the phase that a connection is in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, time_out: Callable[[], None]) -> None:
        self.phase = Phase.RESPONSE
        self._loop = loop
        self._time_out = time_out
        self._handle: asyncio.TimerHandle | None = None

    def enter(self, phase: Phase) -> None:
        """Starts the timer of a phase, if it is another one than before."""
        if phase is self.phase:
            return
        self.phase = phase
        self.stop()
        if phase is Phase.HEAD:
            self._handle = self._loop.call_later(HEAD_TIMEOUT_S, self._time_out)
        elif phase is Phase.LAST:
            self._handle = self._loop.call_later(LAST_S, self._time_out)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
