"""The work log of a demo worker: one line for each step, written before the server is told.

A line is written in one call with O_APPEND, so ``kill -9`` loses no line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import msgspec

from tarry import AsyncJob
from tarry.internal import moment_us

LogEvent = Literal["ready", "taken", "closed", "left"]


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """``due_us`` and ``handed_us`` are the server's times of this attempt."""

    what: LogEvent
    order: str = ""
    attempt: int = 0
    due_us: int = 0
    handed_us: int = 0


class WorkLog:
    """Writes the log."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, line: LogLine) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def write_event(self, what: LogEvent, job: AsyncJob[Any]) -> None:
        due = job.due
        self.write(LogLine(what, job.id, job.attempt, moment_us(due), moment_us(due + job.lateness)))


class LogReader:
    """Reads the log, each time from where it stopped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.lines: list[LogLine] = []
        self.taken = self.closed = 0
        """How many lines of each event there are."""
        self._decode = msgspec.json.Decoder(LogLine).decode

    def read_new(self) -> LogReader:
        """Reads the new lines."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._at += len(whole)
            for text in whole.splitlines():
                line = self._decode(text)
                self.lines.append(line)
                self.taken += line.what == "taken"
                self.closed += line.what == "closed"
        return self

    @property
    def is_ready(self) -> bool:
        return bool(self.lines)

    @property
    def holds(self) -> int:
        """How many orders its worker has taken and not closed yet."""
        return self.taken - self.closed
