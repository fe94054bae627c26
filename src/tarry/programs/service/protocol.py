"""HTTP/1.1 as uvicorn speaks it, and one thing more: who offers an upgrade to HTTP/2 is heard all the same.

Java's own HttpClient offers it with its first request (``Upgrade: h2c``). A server may read over an offer; the parser
underneath does not, and loses the request's body. So the offer is taken out of the request's head.
"""

from __future__ import annotations

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_OFFER = re.compile(rb"\r\nupgrade: *h2c *(?=\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """One connection."""

    def data_received(self, data: bytes) -> None:
        cycle: Any = self.cycle  # none before the first request
        if b"h2c" in data and (cycle is None or cycle.response_complete):
            head, end, rest = data.partition(_END)
            data = _OFFER.sub(b"", head + end[:2]) + end[2:] + rest
        super().data_received(data)
