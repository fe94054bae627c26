"""Several processes of a service on one port, and their parent.

    parent ──spawn──▶ children, which inherit the port and accept its connections
      SIGTERM, Ctrl-C  ─▶ it closes its own copy of the port, and each child drains; a second one ─▶ they exit at once
      a child dies     ─▶ its requests end with their connections, the others take new ones, and it is replaced after a pause
      the parent dies  ─▶ the children read the end of a socket, and drain

The processes write what they count into files of one folder; a scrape of any of them reads all.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tarry.internal import RetryDelay, handle_signals, supervise_task
from tarry.programs.serving.listener import GRACE_S
from tarry.programs.serving.stderr import write_line

PORT, PARENT = "TARRY_SERVICE_PORT", "TARRY_SERVICE_PARENT"
"""Environment variables that a parent sets for its children: file descriptors of the port, and of a socket to the parent."""
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus_client learns where the processes of one service write what they count."""
FIRST_PAUSE_S, LONGEST_PAUSE_S, STABLE_AFTER_S = 0.1, 30.0, 10.0
"""Pauses between a death and the next start. After a child that lived for ``STABLE_AFTER_S`` the pause is the shortest again."""
FOLDER = "tarry-metrics-"
"""How the names of the folders begin where the processes count."""
KILL_MARGIN_S = 5.0
"""How long beyond its drain and its last requests a child may take to exit before it is killed."""


def inherited() -> tuple[socket.socket, socket.socket] | None:
    """In a child: the port, and the socket to its parent."""
    if PARENT not in os.environ:
        return None
    port, parent = (socket.socket(fileno=int(os.environ.pop(name))) for name in (PORT, PARENT))
    return port, parent


class ServiceProcesses:
    """Keeps ``count`` children running, each started by ``command``, until a signal."""

    def __init__(self, command: Sequence[str], count: int, listener: socket.socket, drain_s: float) -> None:
        self._command = command
        self._count = count
        self._listener = listener
        self._drain_s = drain_s
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Runs until all children have exited."""
        restore_signals = handle_signals(self._stop, self._stopping.is_set)
        killing = asyncio.ensure_future(supervise_task("tarry stop", self._kill_late_children))
        try:
            with _metrics_folder() as (folder, lock):
                numbers = range(1, self._count + 1)
                await asyncio.gather(*[self._keep_child_running(number, folder, lock) for number in numbers])
        finally:
            killing.cancel()
            restore_signals()

    def _stop(self) -> None:
        again = self._stopping.is_set()
        self._stopping.set()
        self._listener.close()
        if not again:
            write_line("tarry: draining.")
        for child in self._children.values():
            _send(child, signal.SIGINT if again else signal.SIGTERM)  # two signals of one number may be merged

    async def _keep_child_running(self, number: int, folder: str, lock: int) -> None:
        """Starts child ``number``, and another one when it dies."""
        restart_delay = RetryDelay(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                end = await self._run_child(number, folder, lock)
            except OSError as fault:  # no memory, no files
                end = f"process {number} cannot be started: {fault.strerror}"
            if self._stopping.is_set():
                return
            if time.monotonic() - began > STABLE_AFTER_S:
                restart_delay.reset()
            pause = restart_delay.next_delay()
            write_line(f"tarry: {end}; another one starts in {pause:.1f} s.")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_child(self, number: int, folder: str, lock: int) -> str:
        """Runs a child to its end, and returns what that was."""
        mine, its = socket.socketpair()
        with mine, its:
            child = self._children[number] = await asyncio.create_subprocess_exec(
                *self._command,
                env={
                    **os.environ,
                    PORT: str(self._listener.fileno()),
                    PARENT: str(its.fileno()),
                    SHARED_FOLDER: folder,
                },
                pass_fds=[self._listener.fileno(), its.fileno(), lock],
                start_new_session=True,  # a Ctrl-C of the terminal reaches it by its parent alone, once
            )
            its.close()
            if self._stopping.is_set():
                _send(child, signal.SIGTERM)
            code = await child.wait()
        del self._children[number]
        _forget_gauges(child.pid, folder)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"process {number} (pid {child.pid}) {how}"

    async def _kill_late_children(self) -> None:
        await self._stopping.wait()
        await asyncio.sleep(self._drain_s + GRACE_S + KILL_MARGIN_S)
        for child in self._children.values():
            _send(child, signal.SIGKILL)


def _send(child: asyncio.subprocess.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        child.send_signal(number)


@contextmanager
def _metrics_folder() -> Generator[tuple[str, int]]:
    """A folder, and the file descriptor that locks it until this process and its children have exited. A parent that is killed
    leaves its folder behind: the next one removes it."""
    _remove_abandoned()
    folder = tempfile.mkdtemp(prefix=FOLDER)
    while (lock := _lock(folder)) < 0:  # another process that starts now took it for abandoned
        folder = tempfile.mkdtemp(prefix=FOLDER)
    try:
        yield folder, lock
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        if (lock := _lock(str(folder))) >= 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: str) -> int:
    """Locks a folder. Returns the file descriptor, or -1: it is locked, gone, or somebody else's."""
    import fcntl  # here: Windows has none, and must be able to import this module

    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return -1
    with suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:
            return lock
    os.close(lock)
    return -1


def _forget_gauges(pid: int, folder: str) -> None:
    """The counters of a dead child stay; its gauges do not."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]  # it has no types
