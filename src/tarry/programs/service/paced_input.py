"""Input of connections without a token: it reaches the parser a request at a time, and a few requests of them all in each turn of the loop.

The parser cannot stop between two requests of one read, so it gets parts that end with a head. A part waits until the response before it
was sent, and until its turn has come; meanwhile no more is read. So thousands who send at once delay the others by one turn, and each
of them waits for its own requests; those that show a valid token do not wait for the others (``turns.py``). Once a connection is authorized,
its reads go to the parser as they come.
"""

from __future__ import annotations

import re
from typing import Any

from tarry.errors import BadInput
from tarry.programs.service.open_requests import OpenRequests
from tarry.programs.serving.connection_limits import PortLimits

_END = b"\r\n\r\n"
_TOKEN = re.compile(rb"\n(?:authorization|cookie):[^\n]*?(tarry_[\w-]+|(?<=credential=)\w+(?=/))", re.IGNORECASE)
"""A token in a header, or the access key of SQS; a cookie may be one of the dashboard."""
MOST_DROPPED = 16 << 20
"""How many bytes are dropped after the last response, so that a client that still sends can read it."""
MOST_KEPT = 1 << 20
"""How many bytes are kept. Reading is paused meanwhile; but uvicorn resumes it for the body of a request."""


class PacedInput:
    """The input of one connection."""

    def __init__(self, connection: Any, open_requests: OpenRequests, limits: PortLimits) -> None:
        self._connection, self._open, self._limits = connection, open_requests, limits
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
        if not self._limits.turns.take(self.work, shows_token=self._shows_token()):
            self._limits.note_stranger(self._connection, is_open=True)

    def resume(self) -> None:
        """A response was sent, or the connection was authorized: more may be parsed, in its turn."""
        if self._open.is_last:
            self._kept = b""
        if self._kept:
            self._connection.flow.pause_reading()
            self._limits.turns.wait_for(self.work, shows_token=self._shows_token())

    def work(self) -> None:
        """Its turn has come: parses one request of a stranger's input, or all that an authorized connection has sent."""
        is_over = self._open.is_last or self._connection.transport.is_closing()
        if is_over or not self._kept:
            self._kept = b""
            self._connection.flow.resume_reading()
        elif self._open.is_authorized or not self._open or self._open.waits_for_a_body():
            self._parse_part()
            if (
                self._kept and not self._open.is_last and self._open.waits_for_a_body()
            ):  # with its head, or an answer before it would end the connection
                self._parse_part()
            self.resume()
            if not self._kept:
                self._connection.flow.resume_reading()
        else:
            self._connection.flow.pause_reading()

    def _parse_part(self) -> None:
        end = len(self._kept) if self._open.is_authorized else self._end_of_part()
        part, self._kept, begins = self._kept[:end], self._kept[end:], self._begins
        self._begins = not self._kept
        self._connection.parse(part, is_read=begins)

    def _end_of_part(self) -> int:
        end = self._kept.find(_END)
        return len(self._kept) if end < 0 else end + len(_END)

    def _shows_token(self) -> bool:
        if self._open.is_authorized:
            return True
        shown = _TOKEN.search(self._kept, 0, self._end_of_part())
        return shown is not None and self._limits.knows_token(shown[1].decode("latin-1"))
