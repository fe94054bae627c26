"""A minimal client of a server, to start and stop a server without a driver.

    RespConnection.connect("/run/…/a.sock")        one open connection (a path, or a (host, port))
      .call("INFO", "server")   →    the reply: bytes, int, None or a list of them
      .is_closed()              →    True once the server has closed it, which it never does while it runs

Rules: the standard library only, because the supervisor imports this file without any package; every read has a timeout;
an error reply is raised as ``ErrorReply`` with the server's message, a dead or silent server as ``OSError``.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator
from typing import TypeAlias

Address: TypeAlias = "str | tuple[str, int]"
Reply: TypeAlias = "bytes | int | list[Reply] | None"

#: the timeout of one reply; a server that needs longer is frozen, or its machine is
ANSWER_TIMEOUT_S = 2.0


class ErrorReply(Exception):
    """The server answered with an error. The text is the server's."""


class RespConnection:
    """One connection to a server."""

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket
        self._read = socket.makefile("rb")

    @classmethod
    def connect(cls, address: Address, timeout_s: float | None = None) -> RespConnection:
        """Connects. ``timeout_s`` bounds each reply. Raises ``OSError`` if no server listens."""
        sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.settimeout(ANSWER_TIMEOUT_S if timeout_s is None else timeout_s)
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._read.close()
        self._socket.close()

    def __enter__(self) -> RespConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *args: str) -> None:
        parts = [f"*{len(args)}\r\n".encode()]
        for arg in args:
            data = os.fsencode(arg)
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
        self._socket.sendall(b"".join(parts))

    def call(self, *args: str) -> Reply:
        """Sends one command and returns its reply."""
        self.send(*args)
        return self._reply()

    def is_closed(self) -> bool:
        """Whether the server has closed it. Does not wait; only for a connection without outstanding replies."""
        try:
            if not select.select([self._socket], [], [], 0)[0]:
                return False
            return not self._socket.recv(1)
        except (OSError, ValueError):  # ValueError: closed on our side
            return True

    def _reply(self) -> Reply:
        line = self._read.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ErrorReply(rest.decode(errors="replace"))
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return self._bulk(int(rest))
        if kind == b"*":
            return None if rest == b"-1" else [self._reply() for _ in range(int(rest))]
        raise ConnectionError(f"not a Redis or Valkey server: it sent {line[:40]!r}")

    def _bulk(self, size: int) -> bytes | None:
        if size < 0:
            return None
        data = self._read.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionError("the server closed the connection")
        return data[:-2]


def call_once(address: Address, *args: str) -> Reply:
    """Connects, sends one command, returns its reply and closes."""
    with RespConnection.connect(address) as connection:
        return connection.call(*args)


def read_process_id(connection: RespConnection) -> int:
    """The process of the server. Its other fields are parsed by ``tarry.connections.fitness``, which the supervisor cannot import."""
    info = connection.call("INFO", "server")
    _, name, rest = info.partition(b"\nprocess_id:") if isinstance(info, bytes) else (b"", b"", b"")
    if not name:
        raise ConnectionError("not a Redis or Valkey server: INFO has no process id")
    return int(rest.split(None, 1)[0])


def read_state(address: Address) -> str:
    """``"ready"``, ``"loading"`` (it reads its data and will answer soon) or ``"dead"`` (it does not answer)."""
    try:
        call_once(address, "PING")
    except OSError:
        return "dead"
    except ErrorReply as refusal:
        return "loading" if str(refusal).startswith("LOADING") else "ready"
    return "ready"


def backoff_delays(within_s: float, *, first_s: float = 0.001, most_s: float = 0.05) -> Iterator[float]:
    """Sleeps a little longer in each round until the time is over: ``for _ in backoff_delays(10): try again``.

    The first round comes at once, the last one after the time is over.
    """
    end = time.monotonic() + within_s
    pause = first_s
    while True:
        yield (left := end - time.monotonic())
        if left <= 0:
            return
        time.sleep(min(pause, max(left, 0.0)))
        pause = min(pause * 2, most_s)


def last_lines(log: str, *, lines: int = 8) -> str:
    """The last lines of a server's log, for an error message."""
    with contextlib.suppress(OSError), open(log, "rb") as file:  # noqa: PTH123 - no pathlib in the supervisor
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return "(no log)"
