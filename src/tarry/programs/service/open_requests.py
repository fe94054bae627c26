"""The requests of one connection that are not answered yet: all of them learn that the client has gone (uvicorn tells the newest)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

MOST_OPEN = 100
"""How many requests of a connection may be open."""


class OpenRequests:
    """uvicorn's cycles of request and response, the oldest first. ``close`` closes the connection."""

    is_last = False
    """Whether no more are read."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._cycles = deque[Any]()

    def __len__(self) -> int:
        return len(self._cycles)

    def add(self, cycle: Any) -> None:
        self._cycles.append(cycle)

    def remove_answered(self) -> None:
        self._cycles.popleft()

    @property
    def lack_a_body(self) -> bool:
        """Whether the rest of a body is still to come: the newest one's."""
        return len(self._cycles) > 0 and bool(self._cycles[-1].more_body)

    def leave(self) -> None:
        """Ends the connection as if the client had gone."""
        self.is_last = True
        self.tell_gone()
        self._close()

    def tell_gone(self) -> None:
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()
