"""Waiting for something to become true, without a guess at how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

LONGEST_S = 60.0


def until(is_true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LONGEST_S
    while not is_true():
        if time.monotonic() > end:
            pytest.fail(f"{what}: not after {LONGEST_S:g} s")
        time.sleep(0.005)
