"""The command line in a terminal: a real one, behind a pty, for what it asks, draws and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")

AGAIN_S = 2.0


class Terminal:
    """``tarry WORDS`` in a terminal of its own; ``place["PATH"]`` may have a warm one."""

    def __init__(self, *words: str, place: Mapping[str, str], size: tuple[int, int] = (30, 120)) -> None:
        self._screen, terminal = pty.openpty()
        self.resize(*size)
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        here = {**kept, "TERM": "xterm", "TARRY_LOG": "ERROR", **place}
        command = [shutil.which("tarry", path=here["PATH"]) or "tarry", *words]
        self.process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=here)
        os.close(terminal)
        self.raw = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def shown(self) -> str:
        """All that it has written, without colours and movements of the cursor."""
        return ESCAPES.sub("", self.raw)

    def read_until(self, done: Callable[[str], object]) -> str:
        """Reads on, until what it wrote from here on is enough; answers that, without escapes."""
        seen = ""
        while not done(ESCAPES.sub("", seen)):
            part = os.read(self._screen, 65536).decode(errors="replace")
            seen += part
            self.raw += part
        return ESCAPES.sub("", seen)

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def interrupt(self) -> int:
        """Ctrl-C at a question; answers the exit code. It is pressed again while ``interrupted`` does not come: Python misses a signal
        between its question and its read. The rest of the question may come after the key."""
        self.process.send_signal(signal.SIGINT)
        while "interrupted" not in self.raw and self.process.poll() is None:
            if select.select([self._screen], [], [], AGAIN_S)[0]:
                with suppress(OSError):  # the terminal is gone with it
                    self.raw += os.read(self._screen, 65536).decode(errors="replace")
            else:
                self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Reads to its end; answers the exit code."""
        with suppress(OSError):  # the terminal is gone with it
            self.read_until(lambda _: False)
        return self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)
