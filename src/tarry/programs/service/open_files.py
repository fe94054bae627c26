"""How many connections a service may have: as many as it may have files."""

from __future__ import annotations

import asyncio
from typing import Protocol

from tarry.programs.serving.problems import TooManyConnections

MOST_SURPLUS = 16
"""How many surplus connections may send a request at a time: it may be a health check."""
HEALTH = (b"/healthz", b"/readyz")
"""Answered on surplus connections too: a busy service is not dead."""


class LimitedConnection(Protocol):
    """A connection, as far as the limit depends on it."""

    def refuse(self, error: Exception) -> None: ...


class OpenFileLimit:
    """Limits the connections of one service by their file number: a new file gets the lowest free number, so a connection
    with number ``max_file_number`` means that as many files are open."""

    def __init__(self, max_file_number: float) -> None:
        self.max_file_number = max_file_number
        self._surplus: dict[LimitedConnection, None] = {}

    def is_over(self, connection: LimitedConnection, transport: asyncio.Transport) -> bool:
        """Whether a connection is beyond the limit. Refuses the surplus connection that has been silent for longest."""
        file = transport.get_extra_info("socket")
        if file is None or file.fileno() < self.max_file_number:
            return False
        if len(self._surplus) >= MOST_SURPLUS:
            self.forget(oldest := next(iter(self._surplus)))
            oldest.refuse(TooManyConnections())
        self._surplus[connection] = None
        return True

    def fault_of(self, connection: LimitedConnection, url: bytes) -> Exception | None:
        """Why the request of a surplus connection is refused; a health check is not."""
        if connection not in self._surplus:
            return None
        self.forget(connection)
        return None if url.partition(b"?")[0] in HEALTH else TooManyConnections()

    def forget(self, connection: LimitedConnection) -> None:
        self._surplus.pop(connection, None)
