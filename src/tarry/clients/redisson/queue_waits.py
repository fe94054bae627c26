"""The parts of shared queues that need no connection, for both clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from tarry.clients.replies import unavailable_error
from tarry.connections.faults import Fault, ServerRefused, WrongNode
from tarry.core.patience import RetryDelay
from tarry.values.keys import QueueKeys

T = TypeVar("T")
logger = logging.getLogger("tarry")
WINDOW_S = 5.0
"""The longest single wait. Then a new one begins, so that a lost connection or server delays a caller no longer than this."""
SILENT = "the waiting connection has been silent for too long"
Pair = tuple[bytes, bytes]  #: the list, and the payload that came from it


class Taken(NamedTuple, Generic[T]):
    """An element that was taken: the list that it was in, its payload, its value."""

    ready: bytes
    payload: bytes
    value: T


class Windows:
    """The waits of one caller, one after the other, until something comes or its time is up. No I/O; the time is given."""

    def __init__(self, now: float, seconds: float) -> None:
        self._seconds = seconds
        self._until = now + seconds
        self._back_off = RetryDelay()
        self._fault: Fault | None = None

    def next(self, now: float) -> float | None:
        """Seconds that the next wait takes; ``None`` when the time is up."""
        left = self._until - now
        return min(left, WINDOW_S) if left > 0 else None

    def answered(self) -> None:
        self._fault = None
        self._back_off.reset()

    def pause_after(self, fault: Fault, now: float) -> float:
        """After a fault: seconds until the next wait. Raises the error of a server that refuses for good."""
        if isinstance(fault, ServerRefused):
            raise fault.error from fault
        self._fault = fault
        return max(min(self._back_off.next_delay(), self._until - now), 0)

    @property
    def needs_refresh(self) -> bool:
        return isinstance(self._fault, WrongNode) or self._back_off.failures > 1

    def raise_fault(self, shown: str) -> None:
        """At the end: no server is not the same as no element."""
        if self._fault is not None:
            raise unavailable_error(self._fault, shown, self._seconds) from self._fault


def blpop(keys: tuple[bytes, ...], seconds: float) -> tuple[bytes, ...]:
    """The command of one wait; 0 would be forever."""
    return b"BLPOP", *keys, b"%.3f" % max(seconds, 0.001)


def ready_keys(queues: Sequence[QueueKeys], group_of: Callable[[bytes], int]) -> list[tuple[bytes, ...]]:
    """The lists to wait for, those of one slot together."""
    found: dict[int, list[bytes]] = {}
    for key in dict.fromkeys(keys.ready for keys in queues):
        found.setdefault(group_of(key), []).append(key)
    return [tuple(keys) for keys in found.values()]


def failure_reason(fault: BaseException) -> str:
    """The reason for which a handler's element was set aside."""
    return "handler: " + " ".join(f"{type(fault).__name__}: {fault}".split())
