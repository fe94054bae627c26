"""Programs that run in a session of their own: all of its processes are counted together, and end together."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
END_S = 10.0


class PeerFailed(Exception):
    """A peer did not do what a row asks for, or not in time. The text goes to the table's footnotes."""


_open: set[Session] = set()


@contextlib.contextmanager
def ended_with_the_block() -> Generator[None]:
    """Ends what other threads have started and not ended, so that their waits end too; ^C comes to one thread only."""
    try:
        yield
    finally:
        for session in list(_open):
            session.close()


class Session:
    """A program and all that it starts; ``close`` kills them. A context manager."""

    def __init__(
        self, words: Sequence[str | Path], log: Path, environment: Mapping[str, str], *, talks: bool = False
    ) -> None:
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talks else file,
                stderr=file,
                env={**os.environ, **environment},
                cwd=log.parent,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._unread = b""
        _open.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def processes(self) -> Iterator[list[str]]:
        """The fields of /proc/PID/stat, from the third on, of each process of the session; with the pid in front."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    yield [path.parent.name, *fields]

    def cpu_s(self) -> float:
        """Processor time of all its processes, and of those that ended and were waited for."""
        return sum(sum(map(int, fields[12:16])) for fields in self.processes()) * TICK_S

    def wait(self, within_s: float) -> int:
        """Its exit status, when it has ended by itself."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise PeerFailed(f"it did not end within {within_s:.0f} s") from None

    def kill(self) -> None:
        """Kills all its processes at once, like a power cut."""
        for _ in range(20):
            pids = [int(fields[0]) for fields in self.processes() if fields[1] != "Z"]
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        _open.discard(self)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def tell(self, line: str) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            stream.write(line.encode() + b"\n")
            stream.flush()
        except OSError:
            raise PeerFailed(f"the program ended: {self.last_words()}") from None

    def hear(self, within_s: float) -> str:
        """The next line of its output."""
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        by = time.monotonic() + within_s
        while b"\n" not in self._unread:
            if not select.select([stream], [], [], max(0.0, by - time.monotonic()))[0]:
                raise PeerFailed(f"no answer within {within_s:.0f} s")
            piece = os.read(stream.fileno(), 1 << 16)
            if not piece:
                raise PeerFailed(f"the program ended: {self.last_words()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def last_words(self) -> str:
        """The last line of its log that names an error, else the last one."""
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "Error: " in line or "Exception: " in line]
        return (errors or lines or ["it said nothing"])[-1][:200]
