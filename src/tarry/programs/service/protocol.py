"""HTTP/1.1 as uvicorn speaks it, and two things more.

Who offers an upgrade to HTTP/2 is heard all the same: Java's own HttpClient offers it with its first request (``Upgrade:
h2c``). A server may read over an offer; the parser underneath does not, and loses the request's body. So the offer is taken
out of the request's head.

The head of an answer leaves with what follows it: one call of the system instead of two, and they are what answering costs.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_OFFER = re.compile(rb"\r\nupgrade: *h2c *(?=\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        whole: Any = Whole(transport)
        super().connection_made(whole)

    def data_received(self, data: bytes) -> None:
        cycle: Any = self.cycle  # none before the first request
        if b"h2c" in data and (cycle is None or cycle.response_complete):
            head, end, rest = data.partition(_END)
            data = _OFFER.sub(b"", head + end[:2]) + end[2:] + rest
        super().data_received(data)


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
