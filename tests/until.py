"""Waits for a condition, without a guess at how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from tarry.connections.embedded.resp import backoff_delays

LONGEST_S = 60
"""No test needs so long; it is there so that a hang is told."""

T = TypeVar("T")


def until(is_so: Callable[[], T], what: str = "it") -> T:
    """Asks again until the answer is true, and answers it."""
    for _ in backoff_delays(LONGEST_S, most_s=0.01):
        if found := is_so():
            return found
    pytest.fail(f"{what}: not within {LONGEST_S} s")
