"""The only place that changes a byte of what clients send: an offered upgrade is removed from a head.

Java's own HttpClient offers HTTP/2 (``Upgrade: h2c``) with its first requests. A server may ignore the offer (RFC 9110, 7.8), but
httptools takes the body of such a request for another protocol, and cannot be told otherwise. So the line is removed before the
parser sees it, and only where nothing but a head can be:

    the parser stands between two messages, no response is open ─▶ the read begins with a head ─▶ it is kept until its CRLF CRLF
                                                                                                  what follows is not looked at

The connection (``HTTPProtocol``) decides the first, and limits the size and the time of what is kept. In any other head, one that is
pipelined, an offer is refused.
"""

from __future__ import annotations

import re

_LINE = re.compile(rb"(?<=[^\r\n])\r\nupgrade:[\t\x20-\x7e\x80-\xff]*(?=\r\n[^ \t])", re.IGNORECASE)
"""A whole line of a head: not the first, and not continued. One with a control character stays, and the parser refuses it."""
_BARE_LF = re.compile(rb"(?<!\r)\n")
_END = b"\r\n\r\n"


class UpgradeOffers:
    """The reads of one connection that begin with a head."""

    _kept = b""
    """A head that is not complete, and that the parser has not seen."""

    def remove_from(self, data: bytes) -> bytes:
        """Returns the bytes for the parser: none until the head is complete, then the head without offers, and all that follows it."""
        searched = 0
        if self._kept:
            searched = max(len(self._kept) - len(_END), 0)
            data = self._kept + data
        end = data.find(_END, searched)
        if end < 0 and _BARE_LF.search(data, searched) is None:
            self._kept = data
            return b""
        self._kept = b""
        if end < 0 or _LINE.search(data, 0, end + 4) is None:  # with a bare LF it has no end; the parser refuses it
            return data
        end += len(_END)
        return _LINE.sub(b"", data[:end]) + data[end:]
