"""A second reader of HTTP/1.1, h11: which requests are in some bytes. It stops where it finds none."""

from __future__ import annotations

import re

import h11

Requests = list[tuple[str, str, bytes | None]]
_GOES_ON = (h11.DONE, h11.MIGHT_SWITCH_PROTOCOL)
"""The states after which the next request is read; a server that ignores an offer to switch reads on, too."""
_FIRST_LINE = re.compile(rb"^([A-Z]+) +(\S+) +(HTTP/\d\.\d\r\n)")
_AUTHORITY = re.compile(r"^https?://[^/?#]*", re.IGNORECASE)


def requests_in(stream: bytes) -> Requests:
    """Method, path and body of each request, up to the first that cannot be read, or that ends the connection. Where only the head can
    be read, the last has no body.

    It lets pass two things that a server may (RFC 9112, 2.2 and 3) and h11 does not: empty lines before a request, and several blanks
    in its first line.
    """
    found: Requests = []
    while stream := _FIRST_LINE.sub(rb"\1 \2 \3", stream.lstrip(b"\r\n")):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        connection.receive_data(stream)
        method, path, body = "", "", b""
        try:
            while not isinstance(event := connection.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    method, target = event.method.decode(), _AUTHORITY.sub("", event.target.decode())
                    path = re.split(r"[?#]", target)[0]
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    break
        except h11.RemoteProtocolError:
            event = None
        if not isinstance(event, h11.EndOfMessage):
            return [*found, (method, path, None)] if method else found
        found.append((method, path, body))
        if connection.their_state not in _GOES_ON:
            return found
        stream = connection.trailing_data[0]
    return found
