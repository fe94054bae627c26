"""The lines that a service writes to stderr: its log, its banner, its end.

    log, write_line ─▶ up to 1,000 lines wait ─▶ a thread writes them

So a pipe that nobody reads, or a disk that hangs, delays no request, and no end. Where no more may wait, lines are dropped; their number is
logged as soon as others are written again.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue

from tarry.internal import one_line

MOST_WAITING = 1000
"""How many lines wait to be written; one with a traceback counts as one."""
END_S = 1.0
"""How long the end of the process waits for them."""
logger = logging.getLogger("tarry")


class LineWriter:
    """Writes lines in a thread of its own."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._waiting: Queue[str] = Queue(MOST_WAITING)
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._dropped = self._told = 0
        """How many lines were dropped in all, and how many of them a line has told."""

    def put(self, line: str) -> None:
        """Writes a line soon, or drops it."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tarry stderr", daemon=True)
                self._thread.start()
        try:
            self._waiting.put_nowait(f"{line}\n")
        except Full:
            self._dropped += 1

    def flush(self) -> None:
        """Returns when all lines are written, and at the latest after ``END_S``."""
        with self._waiting.all_tasks_done:
            self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, END_S)

    def _run(self) -> None:
        while True:
            line = self._waiting.get()
            with suppress(OSError):  # nobody can read it any more
                self._write(line)
            if self._dropped > self._told and not self._waiting.full():
                dropped, self._told = self._dropped - self._told, self._dropped
                logger.warning("Lines of this log that were dropped, because nobody read stderr: %d.", dropped)
            self._waiting.task_done()


class LogHandler(logging.Handler):
    """Writes log lines by a ``LineWriter``."""

    def __init__(self, writer: LineWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.put(self.format(record))
        except Exception:  # noqa: BLE001  # as each handler of logging: a wrong log line is no error of its caller
            self.handleError(record)

    def flush(self) -> None:
        self._writer.flush()


def _write(text: str) -> None:
    """Past the lock of ``sys.stderr``: the interpreter cannot end while a thread that waits in here has that."""
    try:
        number = sys.stderr.fileno()
    except (AttributeError, ValueError, OSError):  # none, or text that somebody keeps
        print(text, end="", file=sys.stderr)
        return
    data = text.encode(errors="backslashreplace")
    while data:
        data = data[os.write(number, data) :]


STDERR = LineWriter(_write)


def write_line(text: str) -> None:
    """Writes lines that are not of the log."""
    STDERR.put("\n".join(map(one_line, text.split("\n"))))
