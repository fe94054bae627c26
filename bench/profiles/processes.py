"""The processes that are counted."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from bench.profiles.callgrind import CountedProcess
from bench.profiles.child import Child
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import find_binary
from tarry.connections.embedded.shared_server import DURABLE_OPTIONS

How = Literal["plain", "instructions", "bytecodes"]
START_S = 120


class TracedProcess(Child):
    """A Python process whose bytecodes are counted."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._output = folder / "bytecodes.json"
        super().__init__([sys.executable, "-m", "bench.profiles.bytecodes", str(self._output), *words])

    def measure(self, action: Callable[[], object]) -> Counter[str]:
        """Counts what its main thread does meanwhile."""
        self._read()
        action()
        return self._read()

    def _read(self) -> Counter[str]:
        self._output.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        wait_until(self._output.exists)
        return Counter(json.loads(self._output.read_text("utf-8")))


def wait_until(condition: Callable[[], object], within_s: float = START_S) -> None:
    """Looks again and again; what is waited for is in another process that is made slow."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within_s} s")
        time.sleep(0.02)


@contextmanager
def python(how: How, *words: str) -> Generator[Child]:
    """``python -m WORDS``, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="tarry-") as folder:
        started: Child
        if how == "instructions":
            started = CountedProcess([sys.executable, "-m", *words], Path(folder))
        elif how == "bytecodes":
            started = TracedProcess(words, Path(folder))
        else:
            started = Child([sys.executable, "-m", *words])
        try:
            yield started
        finally:
            started.stop()


@contextmanager
def counted_server() -> Generator[tuple[str, CountedProcess]]:
    """A server with the embedded server's settings under callgrind: its URL, and the process."""
    with tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp") as folder:
        socket = f"{folder}/s"
        place = ["--port", "0", "--unixsocket", socket, "--dir", folder]
        started = CountedProcess([str(find_binary()), *place, *DURABLE_OPTIONS], Path(folder))
        try:
            wait_until(lambda: plain_client.read_state(socket) == "ready")
            yield f"unix://{socket}", started
        finally:
            started.stop()
