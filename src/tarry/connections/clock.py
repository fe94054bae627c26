"""The clock of what must not outlive a suspended machine: leases of locks, reports of Sentinels."""

from __future__ import annotations

import time

_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> float:
    """Seconds of a clock that goes on while the machine is suspended, if the system has one. ``time.monotonic`` stops on Linux."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
