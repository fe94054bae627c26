"""beanstalkd's clients by hand: a socket that sends lines and reads replies, and beanstalkd itself, to compare with."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from until import LONGEST_S, until

ONLY_WORDS = (b"RESERVED", b"FOUND", b"OK")
"""The words of replies that a body follows."""
UNQUOTED = re.compile(rb'^(name|tube): ([^"\n]+)$', re.M)


class Bean:
    """A connection."""

    def __init__(self, port: int, timeout: float = 20) -> None:
        self._take(socket.create_connection(("127.0.0.1", port), timeout))

    @classmethod
    def of(cls, connected: socket.socket) -> Bean:
        """One on a socket that is connected."""
        made = cls.__new__(cls)
        made._take(connected)
        return made

    def _take(self, connected: socket.socket) -> None:
        self.socket = connected
        self._file = connected.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> bytes:
        """One reply, with its body; b"" if the server has closed the connection."""
        line = self._file.readline()
        word, *numbers = line.split() or [b""]
        if word in ONLY_WORDS:
            return line + self._file.read(int(numbers[-1]) + 2)
        return line

    def __call__(self, line: bytes, body: bytes | None = None) -> bytes:
        """Sends one command, and returns its reply without the last CR and LF."""
        self.send(line + b"\r\n" + (b"" if body is None else body + b"\r\n"))
        return self.reply().removesuffix(b"\r\n")

    def put(self, body: bytes, pri: int = 10, delay: str = "0", ttr: int = 60) -> int:
        """The new job's number."""
        word, number = self(b"put %d %s %d %d" % (pri, delay.encode(), ttr, len(body)), body).split()
        assert word == b"INSERTED"
        return int(number)

    def stats(self, command: bytes) -> dict[str, str]:
        """The lines of a report."""
        head, _, data = self(command).partition(b"\r\n")
        assert head.startswith(b"OK "), head
        return dict(line.split(": ", 1) for line in data.decode().splitlines()[1:])

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Bean:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def as_1_13(reply: bytes) -> bytes:
    """A reply with names in quotes, which 1.12 does not write yet."""
    return UNQUOTED.sub(rb'\1: "\2"', reply)


@contextmanager
def beanstalkd(*words: str) -> Iterator[int]:
    """beanstalkd itself; its port."""
    binary = shutil.which("beanstalkd")
    if binary is None:
        pytest.skip("needs beanstalkd")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    child = subprocess.Popen([binary, "-l", "127.0.0.1", "-p", str(port), *words])

    def answers() -> bool:
        try:
            Bean(port).close()
        except OSError:
            return False
        return True

    try:
        until(answers)
        yield port
    finally:
        child.terminate()
        child.wait(LONGEST_S)
