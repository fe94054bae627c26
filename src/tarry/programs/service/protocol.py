"""HTTP/1.1 by uvicorn, with limits and fixes that uvicorn lacks.

    phase of a connection   HEAD          the client sends a head: 10 s from its first byte, or from the connection; 64 KiB
                            RESPONSE      the response is sent, a pop waits, a stream runs: no limit
                            UNREAD_BODY   the response was sent, the rest of the body still comes: 10 s
                            IDLE          the next request: uvicorn's keep-alive timeout

While a handler reads the body, ``ServiceRequest.read`` limits the time.

Trailers (fields after a body) are dropped: they must not pass for headers that a proxy has set or checked.

Java's own HttpClient offers an upgrade to HTTP/2 (``Upgrade: h2c``). A server may ignore the offer, but the parser underneath
takes the request's body for another protocol over it. So the line is removed before the parser sees it, and only where nothing but
a head can be: the parser stands between two messages, no response is open, and the read begins with the head. (A read that begins
with the rest of a body whose response was sent is split at its end.) Such a head is kept back until it is complete. Nothing after
it is looked at. In any other head, of a pipelined request, an offer is answered 400, after the responses to the
requests before it, and the connection is closed.

A connection beyond the limit of open files is answered 503, except for health checks. A few such connections may send a
request at a time; the one that has been silent for longest is rejected for the next.
"""

from __future__ import annotations

import asyncio
import logging
import re
from enum import Enum
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tarry.errors import BadInput
from tarry.programs.serving.problems import MEDIA, LongHead, TooManyConnections, TooSlow, problem_of

_UPGRADE_OFFER = re.compile(rb"(?<=[^\r\n])\r\nupgrade:[^\r\n]*(?=\r\n[^ \t])", re.IGNORECASE)
"""A whole line of a head: not the first, and not continued."""
_END = b"\r\n\r\n"
LONGEST_HEAD = 64 << 10
HEAD_TIMEOUT_S = 10.0
"""A head must arrive within this time."""
UNREAD_BODY_S = 10.0
"""So must the rest of a body after the response; otherwise the connection is closed."""
HEALTH = (b"/healthz", b"/readyz")
"""Answered on surplus connections too: a busy service is not dead."""
MOST_SURPLUS = 16
"""How many surplus connections may send a request at a time: it may be a health check."""
_logger = logging.getLogger("uvicorn.error.connections")
_logger.setLevel(logging.ERROR)  # no log lines about malformed requests; only about errors in here


class OpenFileLimit:
    """Limits the connections of one service by their file number: a new file gets the lowest free number, so a connection
    with number ``max_file_number`` means that as many files are open."""

    def __init__(self, max_file_number: float) -> None:
        self.max_file_number = max_file_number
        self._surplus: dict[HTTPProtocol, None] = {}

    def is_over(self, connection: HTTPProtocol) -> bool:
        """Whether a connection is beyond the limit. Rejects the surplus connection that has been silent for longest."""
        file = connection.transport.get_extra_info("socket")
        if file is None or file.fileno() < self.max_file_number:
            return False
        if len(self._surplus) >= MOST_SURPLUS:
            self.forget(oldest := next(iter(self._surplus)))
            oldest.reject(TooManyConnections())
        self._surplus[connection] = None
        return True

    def forget(self, connection: HTTPProtocol) -> None:
        self._surplus.pop(connection, None)


class Phase(Enum):
    """The phase of a connection, by what it waits for."""

    HEAD, RESPONSE, UNREAD_BODY, IDLE = range(4)


class HTTPProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head, _head_size = True, 0
    """Whether a head is expected; how many bytes came since the last head or part of a body."""
    _is_between = True
    """Whether the parser stands between two messages: the next byte is the first of a head."""
    _body_size = 0
    """How much of the body has come."""
    _kept = b""
    """A head that is not complete, and that the parser has not seen."""
    _is_last = False
    """Whether the last request has been read: what comes after it is dropped."""
    _phase: Phase | None = None
    _timer: asyncio.TimerHandle | None = None
    _rejection: Exception | None = None
    """The error that stopped the parser."""
    _is_surplus = False

    def __init__(self, *args: Any, open_file_limit: OpenFileLimit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _logger
        self._open_file_limit = open_file_limit

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._is_surplus = self._open_file_limit.is_over(self)
        self._restart_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        if self._is_surplus:
            self._open_file_limit.forget(self)

    # ── input ───────────────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            return
        cycle: Any = self.cycle  # none before the first request
        is_answered = cycle is None or cycle.response_complete
        if is_answered and not self._is_between and 0 < (left := self._unread_body()) < len(data):
            self.data_received(data[:left])  # the next request's head is a read of its own, if the parser agrees
            data = data[left:]
        self._head_size += len(data)
        if is_answered and self._is_between:
            searched = max(len(self._kept) - len(_END), 0)
            data = self._kept + data
            end = data.find(_END, searched)
            self._kept = data if end < 0 else b""
            if end >= 0:
                data = _without_offer(data, end + len(_END))
        if self._kept:
            self._unset_keepalive_if_required()
        else:
            super().data_received(data)
        if self._head_size > LONGEST_HEAD:
            self.reject(LongHead())
        self._restart_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_between, self._body_size = False, 0
        self._head_size = self._head_size or 1

    def on_headers_complete(self) -> None:
        if self._head_size > LONGEST_HEAD:  # it may contain part of the body: measure the head alone
            head = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if head > LONGEST_HEAD:
                self._stop_parser(LongHead())
        if self._is_surplus:
            self._open_file_limit.forget(self)
            if self.url.partition(b"?")[0] not in HEALTH:
                self._stop_parser(TooManyConnections())
        self._in_head = False
        parser: Any = self.parser
        if parser.should_upgrade() or b"upgrade" in [name for name, _ in self.headers]:
            self.app, self._is_last = _refuse_upgrade, True
        super().on_headers_complete()
        if self._is_last:
            self.cycle.keep_alive = False
        self.headers = [*self.headers]  # a copy: the parser appends trailers to the original

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._is_between, self._head_size = True, True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_surplus:
            self.transport.close()
        self._restart_timer()

    def _unread_body(self) -> int:
        """How many bytes of the body are still to come, if its length is known."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        return int(length) - self._body_size if not self._in_head and length.isdigit() else 0

    # ── timeouts ────────────────────────────────────────────────────────────────────────────────────

    def _restart_timer(self) -> None:
        """Starts the timer of the connection's phase when the phase has changed."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            phase = Phase.RESPONSE
        elif not self._in_head:
            phase = Phase.UNREAD_BODY
        else:
            phase = Phase.HEAD if self._head_size or cycle is None else Phase.IDLE
        if phase is self._phase:
            return
        self._phase = phase
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport.is_closing():
            return
        if phase is Phase.IDLE:
            if self.timeout_keep_alive_task is None:  # the rest of the body came after the response
                self._timer = self.loop.call_later(self.timeout_keep_alive, self._time_out)
        elif phase is not Phase.RESPONSE:
            self._timer = self.loop.call_later(HEAD_TIMEOUT_S if phase is Phase.HEAD else UNREAD_BODY_S, self._time_out)

    def _time_out(self) -> None:
        if self._phase is Phase.HEAD and self._head_size:
            self.reject(TooSlow())
        self._close()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _close(self) -> None:
        """Closes the connection, even if the client does not read the response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # ── rejected before there is a request ───────────────────────────────────────────────────────────────────────

    def _stop_parser(self, error: Exception) -> None:
        """Makes the parser fail, so that uvicorn calls ``send_400_response``."""
        self._rejection = error
        raise error

    def send_400_response(self, msg: str) -> None:
        self.reject(self._rejection or BadInput(f"request: {msg}"))

    def reject(self, error: Exception) -> None:
        """Closes the connection; sends a problem first, unless another response is being sent."""
        cycle: Any = self.cycle
        if (cycle is None or cycle.response_complete) and not self.transport.is_closing():
            problem, headers = problem_of(error)
            payload = msgspec.json.encode(problem)
            pairs = [(b"content-type", MEDIA), (b"content-length", b"%d" % len(payload)), *headers]
            pairs = [pair for pair in pairs if pair[0] != b"connection"] + [(b"connection", b"close")]
            head = b"".join([b"%s: %s\r\n" % pair for pair in pairs])
            self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + payload)
        self.transport.close()


def _without_offer(data: bytes, end: int) -> bytes:
    """A read without the lines ``Upgrade`` of the head that it begins with, which ends at ``end``."""
    if _UPGRADE_OFFER.search(data, 0, end) is None:
        return data
    return _UPGRADE_OFFER.sub(b"", data[:end]) + data[end:]


async def _refuse_upgrade(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001  # an ASGI application
    """Answers a request with an offer that was not removed."""
    problem, headers = problem_of(BadInput("request: the protocol stays HTTP/1.1; leave out the line Upgrade."))
    headers = [(b"content-type", MEDIA), *headers]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(problem)})
