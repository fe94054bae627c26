"""Input of connections without a token: it reaches the parser a request at a time, and a few requests of them all in each turn of the loop.

The parser cannot stop between two requests of one read, so it gets parts that end with a head. A part waits until the response before it
was sent, and until its turn has come; meanwhile no more is read. So thousands who send at once delay the others by one turn, and each
of them waits for its own requests. Once a connection is authorized, its reads go to the parser as they come.
"""

from __future__ import annotations

from typing import Any

from tarry.errors import BadInput
from tarry.programs.service.open_requests import OpenRequests
from tarry.programs.serving.connection_limits import Turns

_END = b"\r\n\r\n"
MOST_DROPPED = 16 << 20
"""How many bytes are dropped after the last response, so that a client that still sends can read it."""
MOST_KEPT = 1 << 20
"""How many bytes are kept. Reading is paused meanwhile; but uvicorn resumes it for the body of a request."""


class PacedInput:
    """The input of one connection."""

    def __init__(self, connection: Any, open_requests: OpenRequests, turns: Turns) -> None:
        self._connection, self._open, self._turns = connection, open_requests, turns
        open_requests.on_authorized = self.resume
        self._kept, self._begins, self._dropped = b"", True, 0
        """The bytes that the parser has not seen, and whether they begin with a read."""

    def receive(self, data: bytes) -> None:
        if self._open.is_last:
            self._dropped += len(data)
            if self._dropped > MOST_DROPPED:
                self._connection.transport.abort()
            return
        if self._open.is_authorized and not self._kept:
            self._connection.parse(data, is_read=True)
            return
        self._kept += data
        if len(self._kept) > MOST_KEPT:
            self._connection.refuse(BadInput(f"request: more than {MOST_KEPT} bytes came behind it."))
        self._turns.take(self)

    def resume(self) -> None:
        """A response was sent, or the connection was authorized: more may be parsed, in its turn."""
        if self._open.is_last:
            self._kept = b""
        if self._kept:
            self._connection.flow.pause_reading()
            self._turns.wait_for(self)

    def work(self) -> None:
        """Its turn has come: parses one part of a stranger's input, or all that an authorized connection has sent."""
        is_over = self._open.is_last or self._connection.transport.is_closing()
        if is_over or not self._kept:
            self._kept = b""
            self._connection.flow.resume_reading()
        elif self._open.is_authorized or not self._open or (len(self._open) == 1 and self._open.lack_a_body()):
            end = -1 if self._open.is_authorized else self._kept.find(_END)
            end = len(self._kept) if end < 0 else end + len(_END)
            part, self._kept, begins = self._kept[:end], self._kept[end:], self._begins
            self._begins = not self._kept
            self._connection.parse(part, is_read=begins)
            self.resume()
            if not self._kept:
                self._connection.flow.resume_reading()
        else:
            self._connection.flow.pause_reading()
