"""Another process, which holds a lock (tests/locks/holder.py)."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from warm import WarmProcess

HOLDER = Path(__file__).parent / "holder.py"


class HolderProcess:
    """Another process, which holds a lock."""

    def __init__(self, process: WarmProcess, given: IO[str], told: IO[str]) -> None:
        self.signal, self._given, self._told = process.send_signal, given, told
        self.token = int(self.read_line().split()[1])

    def read_line(self) -> str:
        return self._told.readline().strip()

    def say(self, word: str) -> str:
        self._given.write(word + "\n")
        return self.read_line()
