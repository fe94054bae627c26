"""SIGTERM and SIGINT: the first stops, the second hurries, a third ends the process. Where the loop cannot hear, the second does.

Whoever stops a group of processes (systemd, supervisord) sends SIGTERM to a parent and to its children, and the parent sends
it to them too: for a child all SIGTERMs are one signal, and the parent's second one is a SIGINT.

A handler that blocks the event loop keeps it from seeing a signal, but not this process: Python calls what is registered
here between two steps of that very handler.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOP_UNRESPONSIVE_S = 0.5
"""A loop that has not heard of a signal after so long is blocked."""
GIVEN_BACK = 4
"""The exit code then: what ran comes back after its TTR, or at once by a parent."""


def handle_signals(
    stop: Callable[[], None], on_signal: Callable[[], bool], *, is_child: bool = False
) -> Callable[[], None]:
    """Calls ``stop`` in the loop at each signal; answers what undoes it."""
    loop = asyncio.get_running_loop()
    first_at, calls, told_to_end = 0.0, 0, False

    def signalled(number: int, _: Any) -> None:
        nonlocal first_at, calls, told_to_end
        if is_child and told_to_end and number == signal.SIGTERM:
            return
        told_to_end = told_to_end or number == signal.SIGTERM
        calls += 1
        first_at = first_at or time.monotonic()
        if calls > 1 and not on_signal() and time.monotonic() - first_at > LOOP_UNRESPONSIVE_S:
            os.write(2, b"tarry: the event loop is blocked and cannot stop; this process ends now.\n")
            os._exit(GIVEN_BACK)
        if calls > 2:
            os.write(2, b"tarry: a third signal; this process ends now.\n")
            os._exit(GIVEN_BACK)
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, signalled) for number in SIGNALS}

    def forget() -> None:
        for number, old in before.items():
            signal.signal(number, old)

    return forget
