"""A load for the service: connections that each send a request, read the answer, and send the next.

It uses ``wrk`` where that is installed (Debian has it), with a Lua script beside this file: it takes little processor time
from the server and the service. Otherwise, and for batches and waiting pops, this process sends the requests over sockets.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

WRK = "wrk"
TICKS = os.sysconf("SC_CLK_TCK")


class Service:
    """A service process."""

    def __init__(self, child: subprocess.Popen[str], port: int, beanstalk: int = 0) -> None:
        self.child = child
        self.port = port
        self.beanstalk = beanstalk

    @property
    def cpu_s(self) -> float:
        """The processor time that it has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def service(url: str, *words: str, files: int | None = None) -> AbstractContextManager[Service]:
    """``tarry serve`` on a server, as users run it; it may open so many ``files``."""
    return _started("tarry", "serve", "--port", "0", "--url", url, "--drain", "0s", *words, files=files)


def bare_service(url: str) -> AbstractContextManager[Service]:
    """The yardstick of the service: ``bare_asgi.py``."""
    return _started("bench.bare_asgi", url)


@contextmanager
def _started(*words: str, files: int | None = None) -> Iterator[Service]:
    command = [sys.executable, "-m", *words]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stderr is not None
        found, beanstalk = None, None
        while found is None:
            line = child.stderr.readline()
            beanstalk = beanstalk or re.search(r"clients at \S+:(\d+),", line)
            found = re.search(r"service at \S+:(\d+)\n", line)
        yield Service(child, int(found[1]), int(beanstalk[1]) if beanstalk else 0)
    finally:
        child.terminate()
        child.communicate(timeout=30)


class Connection:
    """One HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int, trust: ssl.SSLContext | None = None) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=trust))

    async def ask(self, request: bytes) -> bytes:
        """Sends a request and returns the body of the response. An error status ends the bench."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            raise AssertionError(head.decode())
        at = head.lower().find(b"content-length: ")
        return await self._reader.readexactly(int(head[at + 16 : head.find(b"\r\n", at)])) if at >= 0 else b""

    def close(self) -> None:
        self._writer.close()


def post(path: str, body: bytes) -> bytes:
    """A request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def by_sockets(port: int, count: int, turns: int, turn: Callable[[Connection], Awaitable[None]]) -> None:
    """Runs until all connections together have had ``turns`` turns."""
    connections = [await Connection.to(port) for _ in range(count)]
    left = turns

    async def run(connection: Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await turn(connection)

    await asyncio.gather(*[run(connection) for connection in connections])
    for connection in connections:
        connection.close()


def by_wrk(port: int, connections: int, seconds: int, script: str, *words: str) -> None:
    """Runs wrk with a Lua script beside this file for ``seconds``."""
    load = [WRK, "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(Path(__file__).with_name(script))]
    command = [*load, f"http://127.0.0.1:{port}", "--", *words]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise AssertionError(output)


def has_wrk() -> bool:
    return shutil.which(WRK) is not None
