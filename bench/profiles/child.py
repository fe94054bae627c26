"""A process that the bench starts, and tells over stdin what to do."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

END_S = 120


class Child:
    """A process with pipes; what it logs is dropped."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid = self._process.pid

    def read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        return line

    def do(self, name: str, times: int) -> str:
        """Sends an operation, and returns the line that says that it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {times}\n")
        self._process.stdin.flush()
        return self.read_line()

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=END_S)
