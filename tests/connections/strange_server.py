"""A server of a few lines that does what no real one does: replies too many, messages in between, half of a reply."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hiredis import Reader

Answer = Callable[[list[bytes]], bytes]
"""What it sends when these words have come."""
CUT = b"<cut>"
"""At the end of an answer: closes the connection."""


@contextmanager
def strange_server(answer: Answer) -> Iterator[str]:
    """Yields its URL. CLIENT, which opens a connection, is answered with OK."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    line, _ = door.accept()
                except OSError:
                    return
                threads.append(threading.Thread(target=_serve, args=(line, answer)))
                threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"redis://127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:  # each ends with its client
                thread.join()


def _serve(line: socket.socket, answer: Answer) -> None:
    reader = Reader(notEnoughData=None)
    with line:
        while True:
            try:
                data = line.recv(65536)
                if not data:
                    return
                reader.feed(data)
                while (words := reader.gets()) is not None:
                    reply = b"+OK\r\n" if words[0] == b"CLIENT" else answer(words)
                    line.sendall(reply.removesuffix(CUT))
                    if reply.endswith(CUT):
                        return
            except OSError:
                return
