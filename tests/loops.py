"""Both event loops that programs run on: asyncio's own, and uvloop, which ``tarry worker`` and ``tarry serve`` take where it is."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def run(loop: str, work: Coroutine[Any, Any, T]) -> T:
    """Runs it, and fails when a task's or a future's exception was never looked at."""
    unseen: list[str] = []
    made = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=made) as runner:
        runner.get_loop().set_exception_handler(lambda _, about: unseen.append(str(about)))
        found = runner.run(work)
        gc.collect()
        runner.run(asyncio.sleep(0))
    assert not unseen, unseen
    return found
