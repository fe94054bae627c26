"""Children of a worker and of a service, started warm: real ones, with pids, sessions and exit codes of their own.

Both start `python -m tarry` for each of ``--processes``, and a worker `python -c` for functions that run in a process. Each would import
for most of a second. A nursery has imported that, and forks twice for each:

    worker ── words, environment, files ──▶ nursery ──fork──▶ (ends at once) ──fork──▶ child
           ◀────────────── the child's pid ────┘

What is in between has ended when the pid is told. The worker adopts meanwhile, as the nearest subreaper, so the child is its own: it is
waited for, signalled, and killed with its parent as if the worker had started it. A nursery ends with whom it starts children for.

Run:  ``start(words)`` of the command line has one where its words say that it starts children: tests/warm.py. In the process of the
      tests, a test takes the fixture ``warm_children`` (tests/worker/conftest.py).
Give: a command as one of them starts it for a child; any other is started as ever.
Get:  ``subprocess.Popen`` and ``asyncio.create_subprocess_exec``, also on uvloop, which forks by itself.
Add:  what else such a child imports is imported where its nursery is: ``_import_commands`` of tests/warm.py, or ``_main`` here.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
NAME = "nursery"
"""What /proc calls it: ``comm``."""
ABOVE = 1000
"""No file that a child is given has so high a number."""
MOST_FILES = 16
_start_cold: Callable[..., int] = subprocess._fork_exec  # type: ignore[attr-defined]
_create_cold = asyncio.create_subprocess_exec


def serve(line: socket.socket) -> tuple[list[str], dict[str, str], str]:
    """The life of a nursery. Returns in each child, where its files are in place already: its words, environment and folder."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, NAME.encode(), 0, 0, 0)
    os.setsid()  # no signal to the worker's group is for it
    while True:
        head, files, *_ = socket.recv_fds(line, 8, MOST_FILES)
        if not head:
            os._exit(0)
        told = b""
        while len(told) < (size := int.from_bytes(head, "big")):
            told += line.recv(size - len(told))
        given = json.loads(told)
        (born, bearing), (adopted, going) = os.pipe(), os.pipe()
        between = os.fork()
        if not between:
            if child := os.fork():
                os.write(bearing, b"%d" % child)
                os._exit(0)
            os.close(going)
            os.read(adopted, 1)
            line.detach()
            _put(files, given["numbers"])
            os.setsid()
            if given["death"]:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            ctypes.CDLL(None).prctl(PR_SET_NAME, b"python", 0, 0, 0)
            return given["words"], given["environment"], given["folder"]
        os.waitpid(between, 0)
        line.sendall(os.read(born, 20).ljust(20))
        for number in (born, bearing, adopted, going, *files):
            os.close(number)  # that of ``going`` says that the worker is its parent


def _put(files: Sequence[int], numbers: Sequence[int]) -> None:
    """Closes everything but these files, which get their numbers."""
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, ABOVE) for file in files]
    os.closerange(0, ABOVE)
    for file, number in zip(above, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)


class Nursery:
    """Seen from the worker: starts children in place of ``subprocess`` and asyncio."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()

    def fork_exec(self, words: Sequence[str], *given: Any) -> int:
        """As ``_posixsubprocess.fork_exec``, but for what is no child of a worker."""
        _, _, kept, folder, environment, stdin, _, _, stdout, _, stderr, _, failing, *rest = given
        if not _is_child([os.fsdecode(word) for word in words]):
            return _start_cold(words, *given)
        place = os.environ if environment is None else dict(os.fsdecode(row).split("=", 1) for row in environment)
        standard = [own if file < 0 else file for own, file in enumerate((stdin, stdout, stderr))]
        passed = [number for number in kept if number != failing]
        told = json.dumps({
            "words": [os.fsdecode(word) for word in words[1:]], "environment": dict(place), "folder": folder or str(Path.cwd()),
            "numbers": [0, 1, 2, *passed], "death": any(map(callable, rest)),
        }).encode()  # fmt: skip
        with self._lock:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._line, [len(told).to_bytes(8, "big")], [*standard, *passed])
                self._line.sendall(told)
                return int(self._line.recv(20, socket.MSG_WAITALL))
            finally:
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    async def create(self, *words: str, **given: Any) -> Any:
        """As ``asyncio.create_subprocess_exec``, for the same."""
        if not _is_child(words):
            return await _create_cold(*words, **given)
        return Child(subprocess.Popen(words, **given))  # noqa: ASYNC220  # a fork


def _is_child(words: Sequence[str]) -> bool:
    names = {"tarry", "tarry_worker"}
    return words[0] == sys.executable and (not names.isdisjoint(words) or "tarry.worker.run_child" in words[-1])


class Child:
    """What the worker uses of ``asyncio.subprocess.Process``."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self.pid = process, process.pid
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._watch, args=(asyncio.get_running_loop(),), daemon=True).start()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._ended.set_result, code)

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)


def begin() -> tuple[list[str], dict[str, str], str] | None:
    """Forks a nursery of this process, which starts its children there from now on. Returns what a child is given, in each child."""
    mine, its = socket.socketpair()
    if os.fork():
        its.close()
        nursery = Nursery(mine)
        subprocess._fork_exec = nursery.fork_exec  # type: ignore[attr-defined]
        asyncio.create_subprocess_exec = nursery.create
        return None
    mine.close()
    subprocess._fork_exec, asyncio.create_subprocess_exec = _start_cold, _create_cold  # type: ignore[attr-defined]
    return serve(its)


def started(stack: ExitStack) -> Nursery:
    """A nursery for children of this process, which has imported too much, and has threads."""
    mine, its = socket.socketpair()
    with its:
        process = subprocess.Popen([sys.executable, __file__, str(its.fileno())], pass_fds=[its.fileno()])
    stack.callback(process.wait)
    stack.enter_context(mine)
    return Nursery(mine)


def without_nursery(children: Sequence[str]) -> list[int]:
    """The pids of a process's children that it has started itself."""

    def name(pid: str) -> str:
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:  # it has ended
            return ""

    return [int(pid) for pid in children if name(pid) != NAME]


def _main(number: int) -> int:
    import tarry.worker.run_child  # noqa: F401
    import warm

    words, environment, folder = serve(socket.socket(fileno=number))
    warm.become(environment, folder)
    sys.argv = ["python", *words]
    return warm.run_python()


if __name__ == "__main__":
    from quick_exit import end

    end(_main(int(sys.argv[1])))
