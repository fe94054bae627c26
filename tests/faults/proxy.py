"""A line to a real server that can be cut, torn, or go silent, at a chosen command.

client ──▶ Proxy ──▶ server            proxy.arm(LOST)      the next script is done, its answer is not told
                                       proxy.refusing       new connections are closed at once
                                       proxy.half_open      a client is not told when the server ends its line
                                       proxy.cut_all()      every open line breaks now
                                       proxy.reset_all()    the same by a reset, where the door is a port
                       proxy.reads.clear()  what clients write stays in the buffers, until proxy.reads.set()

UNSENT      the line breaks, the command never arrives
LOST        the command is done, the line breaks before its answer
TORN        half of the answer comes, then the line breaks
IGNORED     the command never arrives, and the line stays open and silent
SWALLOWED   the command is done, its answer never comes, and the line stays open and silent
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

UNSENT, LOST, TORN, IGNORED, SWALLOWED = "unsent", "lost", "torn", "ignored", "swallowed"
CUTS = (UNSENT, LOST, TORN)
SILENT = (IGNORED, SWALLOWED)
DONE = (LOST, TORN, SWALLOWED)
"""The faults after which the server has done what it was asked."""


class Proxy:
    """Threads between clients and one server; all of them end with ``close``."""

    def __init__(self, folder: Path | None, target: Any) -> None:
        """The door is a unix socket in the folder, or without one a loopback port."""
        self.path = str(folder / "p") if folder is not None else ""
        self.target = target
        self.refusing = self.half_open = False
        self.reads = threading.Event()
        self.reads.set()
        #: how many commands met their fault
        self.struck = 0
        #: how many connections were accepted
        self.met = 0
        #: how often something came from a client: a pipeline that is not large comes at once
        self.sent = 0
        self._armed: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._door = socket.socket(socket.AF_UNIX if folder is not None else socket.AF_INET)
        self._door.bind(self.path if folder is not None else ("127.0.0.1", 0))
        self._door.listen(256)
        self._start(self._accept)

    def url(self, **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return "unix://" + quote(self.path) + ("?" + query if query else "")

    @property
    def address(self) -> str:
        """The door, where it is a port."""
        host, port = self._door.getsockname()
        return f"{host}:{port}"

    def arm(self, *cuts: str, at: bytes = b"EVAL") -> None:
        """The next commands that hold ``at`` meet these faults, one each."""
        with self._lock:
            self._armed += [(cut, at) for cut in cuts]

    def disarm(self) -> None:
        with self._lock:
            self._armed.clear()

    def cut_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _hang_up(*pair)

    def reset_all(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            try:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # its end is a reset
            except OSError:
                pass  # it is over already
            _shut(server)  # the thread that carries between them wakes, and closes both

    def close(self) -> None:
        self._closed = True
        self.reads.set()
        _hang_up(self._door)
        self.cut_all()
        for thread in self._threads:
            thread.join(5)

    def _start(self, work: Any, *given: Any) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            self.met += 1
            if self.refusing:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX if isinstance(self.target, str) else socket.AF_INET)
            try:
                server.connect(self.target)
            except OSError:
                _hang_up(client, server)
                continue
            with self._lock:
                self._pairs.append((client, server))
            self._start(self._carry, client, server)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        fault, ends = "", [client, server]
        try:
            while True:
                for end in select.select(ends, [], [])[0]:
                    if end is client:
                        self.reads.wait()
                    data = end.recv(1 << 20)
                    if not data and end is server and self.half_open:
                        ends.remove(server)
                        continue
                    if not data:
                        return
                    if end is client:
                        self.sent += 1
                        fault = fault or self._fault_of(data)
                        if fault == UNSENT:
                            return
                        if fault != IGNORED and server in ends:
                            server.sendall(data)
                    elif fault in (LOST, TORN):
                        client.sendall(data[: len(data) // 2] if fault == TORN else b"")
                        return
                    elif fault != SWALLOWED:
                        client.sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            client.close()  # without a farewell, where it is to be a reset
            server.close()

    def _fault_of(self, data: bytes) -> str:
        with self._lock:
            for index, (cut, at) in enumerate(self._armed):
                if at in data:
                    del self._armed[index]
                    self.struck += 1
                    return cut
        return ""


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        _shut(end)
        end.close()


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
