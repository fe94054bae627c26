"""HTTP/1.1 as uvicorn speaks it, and what it leaves to others.

    client has to send   a head      10 s from its first byte, or from the connection; 64 KiB
                         a body      the exchange limits it as long as somebody reads it; what is left when the answer
                                     has been given: 10 s
                         nothing     the answer is on its way, a pop waits, a stream runs: no limit
                         the next    as long as uvicorn keeps a connection

Fields that come after a body (trailers) are dropped: they must not pass for what a proxy has set or looked at in the head.

Who offers an upgrade to HTTP/2 is heard all the same: Java's own HttpClient offers it with its first request (``Upgrade:
h2c``). A server may read over an offer; the parser underneath does not, and loses the request's body. So the offer is taken
out of the request's head.

A connection beyond what the limit of files allows is answered 503, but for questions of health; a few such connections
are heard at a time, and the one that has been silent for longest leaves for the next.

The head of an answer leaves with what follows it: one call of the system instead of two, and they are what answering costs.
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
from tarry.programs.service.problems import MEDIA, LongHead, TooManyConnections, TooSlow, problem_of

_UPGRADE_OFFER = re.compile(rb"\r\nupgrade: *h2c *(?=\r\n)", re.IGNORECASE)
_END = b"\r\n\r\n"
LONGEST_HEAD = 64 << 10
HEAD_S = 10.0
"""A head comes within this time."""
REST_S = 10.0
"""So does what is left of a body when its request has been answered; then the connection is closed."""
HEALTH = (b"/healthz", b"/readyz")
"""Answered on a surplus connection, too: a service that is busy is not dead."""
HEARD = 16
"""So many surplus connections may say whether it is about health."""
_logger = logging.getLogger("uvicorn.error.connections")
_logger.setLevel(logging.ERROR)  # what a stranger sends is no line of a log; what fails in here is


class Surplus:
    """The connections of one service whose file number is ``most`` or higher: a new file has the lowest number that is
    free, so that many are open then."""

    def __init__(self, most: float) -> None:
        self.most = most
        self._heard: dict[HTTPProtocol, None] = {}

    def hear(self, one: HTTPProtocol) -> bool:
        """Whether a connection is one of them; the one that has been silent for longest leaves."""
        file = one.transport.get_extra_info("socket")
        if file is None or file.fileno() < self.most:
            return False
        if len(self._heard) >= HEARD:
            self.forget(oldest := next(iter(self._heard)))
            oldest.turn_away(TooManyConnections())
        self._heard[one] = None
        return True

    def forget(self, one: HTTPProtocol) -> None:
        self._heard.pop(one, None)


class Turn(Enum):
    """What comes next on a connection."""

    HEAD, ANSWER, REST, NEXT = range(4)


class HTTPProtocol(HttpToolsProtocol):
    """One connection."""

    _in_head, _head_size = True, 0
    """Whether a head is what comes, and how much came since the last head, or piece of a body."""
    _turn: Turn | None = None
    _timer: asyncio.TimerHandle | None = None
    _refused: Exception | None = None
    """Why the parser was stopped."""
    _is_surplus = False

    def __init__(self, *given: Any, surplus: Surplus, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = _logger
        self._surplus = surplus

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        whole: Any = HeadBuffer(transport)
        super().connection_made(whole)
        self._is_surplus = self._surplus.hear(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
        if self._is_surplus:
            self._surplus.forget(self)

    # ── what comes ───────────────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        cycle: Any = self.cycle  # none before the first request
        if b"h2c" in data and (cycle is None or cycle.response_complete):
            head, end, rest = data.partition(_END)
            data = _UPGRADE_OFFER.sub(b"", head + end[:2]) + end[2:] + rest
        self._head_size += len(data)
        super().data_received(data)
        if self._head_size > LONGEST_HEAD:
            self.turn_away(LongHead())
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_size = self._head_size or 1

    def on_headers_complete(self) -> None:
        if self._head_size > LONGEST_HEAD:  # perhaps with much of the body: so it is counted
            head = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
            if head > LONGEST_HEAD:
                self._stop(LongHead())
        if self._is_surplus:
            self._surplus.forget(self)
            if self.url.partition(b"?")[0] not in HEALTH:
                self._stop(TooManyConnections())
        self._in_head = False
        super().on_headers_complete()
        self.headers = [*self.headers]  # another list than the request's: to this one trailers are added

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_surplus:
            self.transport.close()
        self._wait()

    # ── how long it is waited for ────────────────────────────────────────────────────────────────────────────────────

    def _wait(self) -> None:
        """Gives the client the time that its turn has."""
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            turn = Turn.ANSWER
        elif not self._in_head:
            turn = Turn.REST
        else:
            turn = Turn.HEAD if self._head_size or cycle is None else Turn.NEXT
        if turn is self._turn:
            return
        self._turn = turn
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport.is_closing():
            return
        if turn is Turn.NEXT:
            if self.timeout_keep_alive_task is None:  # what was left came after the answer
                self._timer = self.loop.call_later(self.timeout_keep_alive, self._give_up)
        elif turn is not Turn.ANSWER:
            self._timer = self.loop.call_later(HEAD_S if turn is Turn.HEAD else REST_S, self._give_up)

    def _give_up(self) -> None:
        if self._turn is Turn.HEAD and self._head_size:
            self.turn_away(TooSlow())
        self._close()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def _close(self) -> None:
        """Also on who does not read what was written to him."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    # ── what is refused before it is a request ───────────────────────────────────────────────────────────────────────

    def _stop(self, why: Exception) -> None:
        """The parser gives up, and ``send_400_response`` is called."""
        self._refused = why
        raise why

    def send_400_response(self, msg: str) -> None:
        self.turn_away(self._refused or BadInput(f"request: {msg}"))

    def turn_away(self, why: Exception) -> None:
        """Closes the connection. It is said why, but not in the middle of another answer."""
        cycle: Any = self.cycle
        if (cycle is None or cycle.response_complete) and not self.transport.is_closing():
            problem, headers = problem_of(why)
            payload = msgspec.json.encode(problem)
            pairs = [(b"content-type", MEDIA), (b"content-length", b"%d" % len(payload)), *headers]
            pairs = [pair for pair in pairs if pair[0] != b"connection"] + [(b"connection", b"close")]
            head = b"".join([b"%s: %s\r\n" % pair for pair in pairs])
            self.transport.write(STATUS_LINE[problem.status] + head + b"\r\n" + payload)
        self.transport.close()


class HeadBuffer:
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
            self._call_soon(self._flush_head)
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._flush_head()
        self._transport.close()

    def _flush_head(self) -> None:
        if self._head and not self.is_closing():
            self.write(b"")
