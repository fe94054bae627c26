"""SIGTERM and SIGINT: the first stops the worker, the second ends its grace period, the third ends the process.

If the event loop is blocked, the second signal ends the process.

systemd and supervisord send SIGTERM to the parent and to its children, and the parent sends it to the children too. So a
child counts all SIGTERMs as one signal; the parent's second signal is a SIGINT.

A handler that blocks the event loop does not block signals: Python runs the signal handler between two bytecodes of it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tarry.errors import BadInput

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOP_UNRESPONSIVE_S = 0.5
"""An event loop that has not handled a signal after this time is blocked."""
RELEASED = 4
"""The exit code when running jobs were cut off: they come back after their TTR, or at once if a parent releases them."""


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine until the end of this process, on uvloop where that is installed."""
    gc.freeze()  # a collection of all that was imported would stop the loop for 30 ms, in the midst of a burst
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def handle_signals(
    stop: Callable[[], None], is_stopping: Callable[[], bool], *, is_child: bool = False
) -> Callable[[], None]:
    """Calls ``stop`` in the event loop at each signal; returns a function that restores the former signal handlers.

    ``is_stopping`` tells whether the event loop has run ``stop``.
    """
    if threading.current_thread() is not threading.main_thread():
        raise BadInput(
            "run: signals arrive in the main thread only, and this is another; write worker.run(signals=False), or "
            "`async with worker` in the event loop of your application, which stops it."
        )
    loop = asyncio.get_running_loop()
    first_at, calls, had_sigterm = 0.0, 0, False

    def signalled(number: int, _: Any) -> None:
        nonlocal first_at, calls, had_sigterm
        if is_child and had_sigterm and number == signal.SIGTERM:
            return
        had_sigterm = had_sigterm or number == signal.SIGTERM
        calls += 1
        first_at = first_at or time.monotonic()
        if calls > 1 and not is_stopping() and time.monotonic() - first_at > LOOP_UNRESPONSIVE_S:
            os.write(2, b"tarry: the event loop is blocked and cannot stop; this process ends now.\n")
            os._exit(RELEASED)
        if calls > 2:
            os.write(2, b"tarry: a third signal; this process ends now.\n")
            os._exit(RELEASED)
        loop.call_soon_threadsafe(stop)

    former = {number: signal.signal(number, signalled) for number in SIGNALS}

    def restore() -> None:
        for number, old in former.items():
            signal.signal(number, old)

    return restore
