"""The two worker processes of the demo, and the end of one of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tarry.errors import Unavailable
from tarry.programs.demo.work_log import LogReader

TTR_S = 2
"""What the killed worker held comes back after so long."""
KILL_WHEN_HOLDING = 3
"""Better than one, as long as there is time to wait for them."""
_LOOK_S = 0.01
_START_S = 30.0


class DemoWorker:
    """One worker process and its diary. Its stdin is open as long as the demo lives: at its end the worker stops."""

    def __init__(self, number: int, folder: Path, url: str | None, namespace: str) -> None:
        self.number = number
        self.work_log = LogReader(folder / f"worker-{number}.jsonl")
        self.killed = False
        self.held = 0
        """How many orders it had in hand when it was killed."""
        self._stderr = folder / f"worker-{number}.stderr"
        place = {} if url is None else {"TARRY_URL": url}  # not among the words: it may hold a password
        words = ["demo-worker", str(folder / f"worker-{number}.jsonl"), "--namespace", namespace, "--ttr", f"{TTR_S}s"]
        with self._stderr.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tarry", *words],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                env={**os.environ, **place},
            )

    async def ready(self) -> None:
        """Until it works. Raises ``Unavailable`` with its own last words when it does not."""
        for _ in range(int(_START_S / _LOOK_S)):
            if self.work_log.read_new().is_ready:
                return
            if self.process.poll() is not None:
                break
            await asyncio.sleep(_LOOK_S)
        raise Unavailable(f"Worker {self.number} of the demo did not start: {self._last_words()}")

    def _last_words(self) -> str:
        return self._stderr.read_text(errors="replace").strip().rpartition("\n")[2] or "it said nothing."

    async def kill_while_busy(self, patience_s: float) -> None:
        """``kill -9`` while it surely holds an order: it is frozen first, and its diary read."""
        pid = self.process.pid
        looks = max(int(patience_s / _LOOK_S), 1)
        for left in range(looks, 0, -1):
            enough = KILL_WHEN_HOLDING if left > looks / 2 else 1
            if self.work_log.read_new().holds >= enough:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.to_thread(os.waitpid, pid, os.WUNTRACED)
                if self.work_log.read_new().holds >= enough:
                    break
                os.kill(pid, signal.SIGCONT)  # it was done with it in that very moment
            await asyncio.sleep(_LOOK_S)
        self.held = self.work_log.holds
        self.process.kill()
        self.process.wait()
        self.killed = True

    async def stop(self) -> None:
        """SIGTERM, and its end."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                await asyncio.to_thread(self.process.wait, _START_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.work_log.read_new()
