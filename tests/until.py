"""Waits for a condition, without a guess at how long it takes; and one condition: whether a process is there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

LONGEST_S = 600
"""No test needs so long. It bounds what cannot wait for ever; a test that hangs is ended before (``tests/plugin_hangs.py``)."""
MOST_S = 0.05

T = TypeVar("T")


def until(is_so: Callable[[], T], what: str = "it") -> T:
    """Asks again until the answer is true, and answers it. It asks the less often the longer it has waited already."""
    began = time.monotonic()
    while not (found := is_so()):
        waited_s = time.monotonic() - began
        if waited_s > LONGEST_S:
            pytest.fail(f"{what}: not within {LONGEST_S} s")
        time.sleep(min(0.001 + waited_s / 8, MOST_S))
    return found


def is_alive(pid: int) -> bool:
    """A zombie is not: it has ended, and its parent need only ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended before, or during, the read
        return False
