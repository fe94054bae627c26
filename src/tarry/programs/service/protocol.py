"""HTTP/1.1 as uvicorn speaks it, and three things more.

Who offers an upgrade to HTTP/2 is heard all the same: Java's own HttpClient offers it with its first request (``Upgrade:
h2c``). A server may read over an offer; the parser underneath does not, and loses the request's body. So the offer is taken
out of the request's head.

A head is no longer than 64 KiB: the parser itself keeps what has no end.

The head of an answer leaves with what follows it: one call of the system instead of two, and they are what answering costs.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tarry.errors import BadInput
from tarry.programs.service.problems import MEDIA, LongHead, problem_of

_OFFER = re.compile(rb"\r\nupgrade: *h2c *(?=\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"
LONGEST_HEAD = 64 << 10


class Protocol(HttpToolsProtocol):
    """One connection."""

    _in_head, _came, _is_long = True, 0, False
    """Whether a head is what comes, how much came since the last one, and whether that is too much."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        whole: Any = Whole(transport)
        super().connection_made(whole)

    def data_received(self, data: bytes) -> None:
        cycle: Any = self.cycle  # none before the first request
        if b"h2c" in data and (cycle is None or cycle.response_complete):
            head, end, rest = data.partition(_END)
            data = _OFFER.sub(b"", head + end[:2]) + end[2:] + rest
        self._came += len(data)
        super().data_received(data)
        if self._in_head and self._came > LONGEST_HEAD:
            self._is_long = True
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        if self._came > LONGEST_HEAD:  # perhaps with much of the body: so it is counted
            head = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            self._is_long = head > LONGEST_HEAD
        if self._is_long:
            raise LongHead  # the parser gives up
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._came = True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What is refused before it is a request; nothing is said in the middle of another answer."""
        cycle: Any = self.cycle
        if (cycle is None or cycle.response_complete) and not self.transport.is_closing():
            problem, _ = problem_of(LongHead() if self._is_long else BadInput(f"request: {msg}"))
            said = msgspec.json.encode(problem)
            head = b"content-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (MEDIA, len(said))
            self.transport.write(STATUS_LINE[problem.status] + head + said)
        self.transport.close()


class Whole:
    """A transport that keeps the head of an answer until its body comes, or until the turn of the loop is over."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._call_soon = asyncio.get_running_loop().call_soon
        self._head = b""
        self.is_closing, self.get_extra_info = transport.is_closing, transport.get_extra_info  # asked for each answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        elif data.endswith(_END):
            self._head = data
            self._call_soon(self._let_go)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._head and not self.is_closing():
            self.write(b"")
