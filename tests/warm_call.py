"""One call of ``tests/warm.py``. A `tarry` on a PATH is to start at once: this imports nothing that is not built into Python, for the
modules of the library below (``json``, ``socket``, ``signal``) take three times as long as all the rest."""

from __future__ import annotations

import _socket
import marshal
import sys

ANSWER = 64
"""Bytes, and more than both answers have."""


class Call:
    """Made in the process that answers; when it is closed before its end, it is killed."""

    def __init__(
        self, address: str, words: list[str], environment: dict[str, str], folder: str, files: tuple[int, ...]
    ) -> None:
        told = marshal.dumps((words, environment, folder))
        numbers = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
        self._answers = b""
        self._line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._line.connect(address)
        self._line.sendmsg([len(told).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
        self._line.sendall(told)

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def answer(self) -> int:
        """First its pid, then its status."""
        while b"\n" not in self._answers and (read := self._line.recv(ANSWER)):
            self._answers += read
        line, _, self._answers = self._answers.partition(b"\n")
        return int(line)
