"""A test that hangs is ended and named, with the stacks of all threads and tasks; the run goes on.

A test hangs when it is not over after two minutes, ten times what the slowest needs; marked ``long``, after twenty; marked
``hangs_after(seconds)``, after those. It is ended in three steps:

1. SIGALRM raises in the main thread, wherever that waits: the test fails with the stacks, its fixtures are torn down.
   uvloop would only log what is raised, so its tasks are cancelled.
2. What waits again while it is torn down gets the same again, every ten seconds.
3. After a minute of that (the main thread is inside a call that no signal ends) a thread that needs no interpreter lock
   writes the stacks down and ends the process. One of several processes is replaced, and the new one goes on with the next test.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from plugin_processes import said_at_last

HANGS_AFTER_S = 120.0
LONG_HANGS_AFTER_S = 1200.0
AGAIN_S = 10.0
STUCK_S = 60.0
RUNNER = re.compile(r"^<string>$|/site-packages/(_pytest|pluggy)/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("hangs_after", "seconds until a test is said to hang", default=str(HANGS_AFTER_S))
    parser.addini("stuck_after", "seconds more until its process is ended", default=str(STUCK_S))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[said_at_last] = os.fdopen(os.dup(2), "wb")
    config.pluginmanager.register(Hangs(config), "tarry-hangs")


class Hangs:
    """In each process that runs tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.after_s = float(config.getini("hangs_after"))
        self.stuck_s = float(config.getini("stuck_after"))
        self.ends = self.watched_until = 0.0
        self.told = self.watching = self.hung = False
        self.words = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.limit_s = self._limit_s(item)
        self.ends = time.monotonic() + self.limit_s
        self.told = False
        self._end_process_after(self.limit_s + self.stuck_s)
        before = signal.signal(signal.SIGALRM, self._end)
        try:
            return (yield)
        finally:
            signal.signal(signal.SIGALRM, before)

    def _end_process_after(self, seconds: float) -> None:
        """A thread counts these, and up to a quarter of ``stuck_after`` more: it is not started anew for each test, which would be much of
        what a small one costs."""
        now, spare_s = time.monotonic(), self.stuck_s / 4
        if not now + seconds <= self.watched_until <= now + seconds + spare_s:
            self.watched_until = now + seconds + spare_s
            file = self.config.stash[said_at_last]
            faulthandler.dump_traceback_later(seconds + spare_s, exit=True, file=file)

    def _limit_s(self, item: pytest.Item) -> float:
        if mark := item.get_closest_marker("hangs_after"):
            return float(mark.args[0])
        return LONG_HANGS_AFTER_S if item.get_closest_marker("long") else self.after_s

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        with self._watched():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        with self._watched():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        with self._watched():
            return (yield)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Only where an exception is the test's: outside, it would be the run's."""
        self.watching = True
        again_s = min(AGAIN_S, self.after_s)
        timer = signal.setitimer(signal.ITIMER_REAL, max(self.ends - time.monotonic(), again_s), again_s)
        try:
            yield
        finally:
            self.watching = False
            signal.setitimer(signal.ITIMER_REAL, *timer)
            self._fail()

    def _end(self, _number: int, frame: FrameType | None) -> None:
        if not self.watching:
            return
        words = f"hangs: not over after {self.limit_s:g} s"
        self.words = f"{words}, and now it waits here" if self.told else f"{words}\n\n{stacks(frame)}"
        self.told = self.hung = True
        loop = asyncio._get_running_loop()
        if loop is None or isinstance(loop, asyncio.BaseEventLoop):
            self._fail()
        for task in asyncio.all_tasks(loop):
            task.cancel()

    def _fail(self) -> None:
        words, self.words = self.words, ""
        if words:
            pytest.fail(words, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """What follows the last test may take longer."""
        faulthandler.cancel_dump_traceback_later()

    def pytest_unconfigure(self) -> None:
        if self.hung:  # a thread of that test would hold the process up for ever
            faulthandler.dump_traceback_later(self.stuck_s, exit=True, file=self.config.stash[said_at_last])

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_process_ends(self) -> None:
        self.pytest_sessionfinish()
        self.pytest_unconfigure()


def stacks(main: FrameType | None) -> str:
    """Of all threads, the main one first, and of all tasks of all event loops."""
    frames = {**sys._current_frames(), threading.main_thread().ident: main}
    lines = []
    for thread in threading.enumerate():
        if frame := frames.get(thread.ident):
            lines += [f"thread {thread.name}:\n", *traceback.format_list(ours(traceback.extract_stack(frame)))]
    made = [
        one for one in gc.get_objects() if issubclass(type(one), asyncio.AbstractEventLoop)
    ]  # isinstance asks lazy objects
    for loop in [one for one in made if not one.is_closed()]:
        for task in asyncio.all_tasks(loop):
            lines += [f"task {task.get_name()} of {loop!r}:\n", *traceback.format_list(list(awaited(task.get_coro())))]
    return "".join(lines)


def ours(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Without those of what runs the tests."""
    return [one for one in frames if not RUNNER.search(one.filename)]


def awaited(waiting: Any) -> Iterator[traceback.FrameSummary]:
    """Where a coroutine waits, and what that awaits, and so on."""
    while waiting is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(waiting, f"{kind}_frame")), None)
        if kind is None:
            return
        if frame := getattr(waiting, f"{kind}_frame"):
            yield traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
