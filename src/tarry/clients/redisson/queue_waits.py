"""The parts of shared queues that need no connection, for both clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tarry.values.keys import QueueKeys

logger = logging.getLogger("tarry")
WINDOW_S = 5.0
"""The longest single wait. Then a new one begins, so that a lost connection or server delays a caller no longer than this."""


def ready_keys(queues: Sequence[QueueKeys], group_of: Callable[[bytes], int]) -> list[tuple[bytes, ...]]:
    """The lists to wait for, those of one slot together."""
    found: dict[int, list[bytes]] = {}
    for key in dict.fromkeys(keys.ready for keys in queues):
        found.setdefault(group_of(key), []).append(key)
    return [tuple(keys) for keys in found.values()]


def failure_reason(fault: BaseException) -> str:
    """The reason for which a handler's element was set aside."""
    return "handler: " + " ".join(f"{type(fault).__name__}: {fault}".split())
