"""Another process, which holds a lock (tests/locks/holder.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

HOLDER = Path(__file__).parent / "holder.py"


class HolderProcess:
    """Another process, which holds a lock."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HOLDER), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.token = int(self.read_line().split()[1])

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, word: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.read_line()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
