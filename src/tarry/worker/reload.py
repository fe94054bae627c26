"""``tarry worker --reload``, for development: when a Python file changes, the worker stops and another one starts.

    this process ──starts──▶ tarry worker app:worker ──exits──▶ waits for the next change
         └── stat() of each *.py file below the folder, twice a second: one changed ──▶ SIGTERM ──▶ starts another one


The reloader does not import the application, so it survives an error in it. Decision 0066 says why it is not a library.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

logger = logging.getLogger("tarry.worker")
CHECK_S, REST_PARTS = 0.5, 10
"""How often the files are looked at; and of a big folder, how many times as long as one look takes."""
PR_SET_PDEATHSIG = 1
Times = dict[str, tuple[int, int]]


def changing_files(folder: Path) -> Times:
    """The Python files below a folder, with their times and sizes. Hidden folders and virtual environments are left out."""
    found: Times = {}
    for where, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("__pycache__", "node_modules")
        ]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(where, name)  # noqa: PTH118  # ten thousand of them, twice a second
                try:
                    known = os.stat(path)  # noqa: PTH116
                except OSError:
                    continue  # deleted meanwhile
                found[path] = known.st_mtime_ns, known.st_size
    return found


def serve_with_reload(command: Sequence[str], folder: Path | None = None) -> int:
    """Runs the command until SIGTERM or SIGINT, which it passes on. Returns the exit code of the last process."""
    return _Reloader(command, folder or Path.cwd()).run()


class _Reloader:
    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._signals: list[int] = []
        self._signalled = threading.Event()
        self._pause_s = CHECK_S
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            files = self._look()
            while True:
                child = self._child = self._start()
                files, changed = self._wait_for_change(child, files)
                if changed:
                    logger.info("↻ %s has changed: the worker starts again", changed)
                    child.terminate()
                code = child.wait()
                if self._signals:
                    return code
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)
        self._signalled.set()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def _start(self) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            self._command,
            start_new_session=True,  # a Ctrl-C of the terminal reaches it by this process alone, once
            preexec_fn=_end_with_parent() if sys.platform == "linux" else None,  # noqa: PLW1509  # no thread runs here
        )
        for number in self._signals[:1]:
            child.send_signal(number)  # it came while the child was being started
        return child

    def _wait_for_change(self, child: subprocess.Popen[bytes], files: Times) -> tuple[Times, str]:
        """Waits until a file differs, and returns all files and its name; or until a signal ended the child."""
        exited = False
        while True:
            try:
                if exited:
                    self._signalled.wait(self._pause_s)
                else:
                    code = child.wait(self._pause_s)
                    exited = True
                    if not self._signals:
                        logger.info("■ the worker has ended with %d; it starts again when a file changes", code)
            except subprocess.TimeoutExpired:
                pass
            if self._signals and exited:
                return files, ""
            found = self._look()
            changed = {path for path, _ in files.items() ^ found.items()}
            if changed and not self._signals:
                return found, os.path.relpath(min(changed), self._folder)

    def _look(self) -> Times:
        began = time.monotonic()
        found = changing_files(self._folder)
        self._pause_s = max(CHECK_S, REST_PARTS * (time.monotonic() - began))
        return found


def _end_with_parent() -> Callable[[], None]:
    """On Linux the child gets SIGTERM when this process is killed: a worker with old code would go on taking jobs."""
    library = ctypes.CDLL(None)
    return lambda: library.prctl(PR_SET_PDEATHSIG, signal.SIGTERM) and None
