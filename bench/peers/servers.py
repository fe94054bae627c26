"""The servers that the bench starts, each on a free port, with its data in a folder of its own."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from bench.peers.processes import PeerFailed, Session
from bench.zookeeper import free_port
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import find_binary
from tarry.connections.embedded.shared_server import DURABLE_OPTIONS
from tarry.connections.fitness import parse_info

READY_S = 20.0


class Server(Protocol):
    """What the rows ask of a server."""

    url: str
    session: Session

    def commands(self) -> int:
        """How many commands it has executed, those in scripts included."""
        ...

    def memory(self) -> int:
        """The bytes that it uses."""
        ...

    def flush(self) -> None:
        """Empties it."""


class Valkey:
    """The embedded server's program and settings (an append-only file, synced each second), on a port."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._address = ("127.0.0.1", port)
        self.url = f"redis://127.0.0.1:{port}/0"
        words = [str(find_binary()), "--port", str(port), "--bind", "127.0.0.1", "--daemonize", "no", *DURABLE_OPTIONS]
        self.session = Session(words, folder / "server.log", {})
        by = time.monotonic() + READY_S
        while plain_client.read_state(self._address) != "ready":
            if not self.session.alive or time.monotonic() > by:
                self.session.close()
                raise PeerFailed("the server did not start")
            time.sleep(0.02)

    def _info(self, section: str) -> dict[str, str]:
        with plain_client.RespConnection.connect(self._address) as line:
            return parse_info(line.call("INFO", section))

    def commands(self) -> int:
        return int(self._info("stats")["total_commands_processed"])

    def memory(self) -> int:
        about = self._info("memory")
        return int(about["used_memory"]) - int(about["mem_aof_buffer"]) - int(about["mem_clients_normal"])

    def flush(self) -> None:
        with plain_client.RespConnection.connect(self._address) as line:
            line.call("FLUSHALL", "SYNC")


class Beanstalkd:
    """beanstalkd with its log, which it syncs every 50 ms."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._address = ("127.0.0.1", port)
        self.url = f"127.0.0.1:{port}"
        self._folder = folder
        binary = shutil.which("beanstalkd")
        if binary is None:
            raise PeerFailed("not installed")
        self.session = Session([binary, "-l", "127.0.0.1", "-p", str(port), "-b", folder], folder / "server.log", {})
        by = time.monotonic() + READY_S
        while True:
            try:
                self._stats()
                return
            except OSError:
                if not self.session.alive or time.monotonic() > by:
                    self.session.close()
                    raise PeerFailed("the server did not start") from None
                time.sleep(0.02)

    def _stats(self) -> dict[str, str]:
        with socket.create_connection(self._address, 5) as line, line.makefile("rb") as replies:
            line.sendall(b"stats\r\n")
            size = int(replies.readline().split()[1])
            text = replies.read(size).decode()
        return dict(part.split(": ", 1) for part in text.splitlines() if ": " in part)

    def commands(self) -> int:
        return sum(int(value) for name, value in self._stats().items() if name.startswith("cmd-"))

    def memory(self) -> int:
        status = Path(f"/proc/{self.session.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * 1024

    def flush(self) -> None:
        """It has no such command; the rows that flush start a server for each part instead."""


KINDS: dict[str, Callable[[Path], Server]] = {"valkey": Valkey, "beanstalkd": Beanstalkd}
