"""One call of ``tests/warm.py``; imports nothing else, for a `tarry` on a PATH is to start at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO


@contextmanager
def call(
    address: str, words: list[str], environment: Mapping[str, str], folder: str, files: Sequence[int]
) -> Iterator[IO[bytes]]:
    """The answers: a line with its pid, at its end a line with its status."""
    told = json.dumps({"words": words, "environment": dict(environment), "folder": folder}).encode()
    with socket.socket(socket.AF_UNIX) as line, line.makefile("rb") as answers:
        line.connect(address)
        socket.send_fds(line, [len(told).to_bytes(8, "big")], files)
        line.sendall(told)
        yield answers
