"""The messages between a worker and its child processes (process_pool.py, run_child.py): pickled, each after its size."""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any

from tarry.verbs.jobs.job_values import JobParts
from tarry.worker.process_functions import ProcessFunction

SIZE = struct.Struct(">Q")


@dataclass(slots=True)
class Setup:
    """The first message to a child: its settings. ``client``: those of the worker's client, pickled, for a function among them may be
    of the main script. ``name`` is the worker's, ``app`` the module that made it, if it has stamps."""

    parent: int
    url: str | None
    client: bytes
    main: dict[str, Any]
    logging: tuple[str, str] | None
    name: str | None = None
    app: str | None = None


@dataclass(slots=True)
class Request:
    """One job. ``wants_result``: middleware looks at what the function returns."""

    function: ProcessFunction
    topic: str
    job: JobParts
    wants_result: bool


@dataclass(slots=True)
class Started:
    """The function is called now: its timeout begins."""


@dataclass(slots=True)
class RunResult:
    """How a run ended; ``fault`` is its exception."""

    settled: bool
    result: bytes = b""
    fault: bytes = b""
    fault_text: str = ""
    trace: str = ""


def send(connection: socket.socket, message: object) -> None:
    data = pickle.dumps(message)
    connection.sendall(SIZE.pack(len(data)) + data)


def receive(connection: socket.socket) -> Any:
    """The next message. Raises ``EOFError`` at the end, ``TimeoutError`` by the socket's timeout."""
    (size,) = SIZE.unpack(_exactly(connection, SIZE.size))
    return pickle.loads(_exactly(connection, size))  # noqa: S301  # from a process of our own


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        part = connection.recv(min(size - len(found), 1 << 20))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
