"""HTTP servers for Python beside each other: a bare ASGI application that reads the body and answers JSON, by turns.

python -m bench.http_servers             processor time a request; granian is measured where it is installed
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.load import Connection, by_sockets, post

TURNS, REQUESTS, CONNECTIONS = 10, 4000, 64
ANSWER = b'{"id":"7","receipt":1}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]
REQUEST = post("/v1/topics/orders/jobs", b'{"body":"' + b"x" * 200 + b'","delay":3600}')
COMMANDS = {
    "uvicorn": "-m uvicorn bench.http_servers:app --loop uvloop --http httptools --no-access-log --log-level error --lifespan off",
    "granian": "-m granian bench.http_servers:app --interface asginl --loop uvloop --workers 1 --no-access-log --log-level error",
}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers."""
    assert scope["type"] == "http"
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


class Running:
    """A server with its children."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def cpu_us(self) -> float:
        """The processor time that it has used, with its children."""
        return sum(map(_cpu_us, (self.process.pid, *_children(self.process.pid))))


def _children(pid: int) -> list[int]:
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(deeper for child in found for deeper in _children(child))]


def _cpu_us(pid: int) -> float:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


@contextmanager
def _server(name: str) -> Iterator[Running]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    words = [*COMMANDS[name].split(), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen([sys.executable, *words], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise AssertionError(f"{name} ended")
            time.sleep(0.2)
        yield Running(process, port)
    finally:
        process.terminate()
        process.wait(30)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


async def _ask(connection: Connection) -> None:
    await connection.ask(REQUEST)


def main() -> None:
    used: dict[str, list[float]] = {name: [] for name in COMMANDS if find_spec(name)}
    with ExitStack() as stack:
        running = {name: stack.enter_context(_server(name)) for name in used}
        for turn in range(TURNS + 1):
            for name in list(used) if turn % 2 else reversed(used):
                server = running[name]
                before = server.cpu_us
                asyncio.run(by_sockets(server.port, CONNECTIONS, REQUESTS, _ask))
                if turn:  # the first one warms up
                    used[name].append((server.cpu_us - before) / REQUESTS)
    for name, turns in used.items():
        quarters = statistics.quantiles(turns, n=4)
        print(
            f"{name:8} {statistics.median(turns):6.1f} µs of processor time a request ({quarters[0]:.1f}–{quarters[2]:.1f})"
        )


if __name__ == "__main__":
    main()
