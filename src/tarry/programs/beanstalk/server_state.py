"""The state that the connections of a server share: its counts, whether it drains, and which sessions are open."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tarry.programs.beanstalk.tubes import Tubes


class OpenSession(Protocol):
    """The session of an open connection, as far as the answers to others describe it."""

    used: str
    watched: dict[str, None]
    waiting: bool
    is_producer: bool
    is_worker: bool

    @property
    def tubes(self) -> Tubes: ...


class ServerState:
    """The state of a server. ``open_sessions`` returns the sessions of the open connections."""

    def __init__(self, max_job_size: int, open_sessions: Callable[[], Sequence[OpenSession]]) -> None:
        self.max_job_size = max_job_size
        self.open_sessions = open_sessions
        self.draining = False
        self.commands: Counter[str] = Counter()
        self.pauses: Counter[tuple[str, str]] = Counter()
        self.accepted = 0
        self.id = os.urandom(8).hex()
        self._began = time.monotonic()

    def uptime(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._began
