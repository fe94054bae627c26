"""HTTP/1.1 by uvicorn and httptools, with limits that uvicorn lacks.

``HTTPProtocol`` refuses, times and closes, and does nothing else. Bytes reach the parser as they came, but for ``UpgradeOffers``.
The first request that the parser or ``fault_of`` refuses ends the input: no byte after it is looked at. The error is answered after the
responses that are open, and the connection is closed, as after one whose response was sent before the request's body had come.

A body that has come is not asked for: no ``100 Continue`` then. HAProxy 2.6 drops the body of an answer whose head it reads together with one.

Trailers (fields after a body) are dropped, so that they do not pass for headers that a proxy has set or checked.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tarry.errors import BadInput
from tarry.programs.service.heads import LONGEST_HEAD, fault_of
from tarry.programs.service.open_requests import MOST_OPEN, OpenRequests
from tarry.programs.service.paced_input import PacedInput
from tarry.programs.service.upgrade_offers import UpgradeOffers
from tarry.programs.serving.connection_limits import Phase, PortLimits
from tarry.programs.serving.problems import MEDIA, LongHead, TooManyConnections, problem_of

HEALTH = (b"/healthz", b"/readyz")
"""Answered on surplus connections too: a busy service is not dead."""
_logger = logging.getLogger("uvicorn.error.connections")
_logger.setLevel(logging.ERROR)  # no log lines about malformed requests; only about errors in here


class HTTPProtocol(HttpToolsProtocol):
    """One connection."""

    _is_between, _is_surplus = True, False
    """Whether the parser stands between two messages; whether the connection is one too many."""
    _head_size = received = 0
    """How many bytes came since the last head or part of a body, and in all."""
    _refusal: Exception | None = None

    def __init__(self, *args: Any, limits: PortLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger, self._limits, self._offers = _logger, limits, UpgradeOffers()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._open = OpenRequests(self, self._limits)
        self._input = PacedInput(self, self._open, self._limits)
        self._is_surplus = not self._limits.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.tell_gone()
        super().connection_lost(exc)
        self._limits.remove(self)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._input.receive(data)

    def parse(self, data: bytes, *, is_read: bool) -> None:
        """Parses what came next; ``is_read``: it is the begin of a read."""
        self._head_size += len(data)
        if is_read and self._is_between and not self._open:
            data = self._offers.remove_from(data)
        super().data_received(data)
        if self._head_size > LONGEST_HEAD:
            self.refuse(LongHead())
        self._open.note_read(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_between, self._head_size = False, self._head_size or 1

    def on_headers_complete(self) -> None:
        parser: Any = self.parser  # none after the end
        version, upgrades = parser.get_http_version(), parser.should_upgrade()
        fault = fault_of(version, self.url, self.headers, size=self._head_size, upgrades=upgrades)
        if self._is_surplus and self.url.partition(b"?")[0] not in HEALTH:
            fault = TooManyConnections()
        if self._open and len(self._open) >= MOST_OPEN:
            fault = BadInput(f"request: {MOST_OPEN} requests of this connection wait for their answers.")
        if fault is not None:
            self._refusal = fault
            raise fault  # the parser fails, and uvicorn calls `send_400_response`
        super().on_headers_complete()
        self._open.add(self.cycle)
        self.headers = []  # of trailers

    def on_body(self, body: bytes) -> None:
        self._head_size, self.cycle.waiting_for_100_continue = 0, False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_between, self._head_size = True, 0
        super().on_message_complete()
        self._open.complete_body()

    def on_response_complete(self) -> None:
        self._open.remove_answered()
        super().on_response_complete()
        self._input.resume()
        if self._is_surplus:
            self.transport.close()
        elif not self._open and not self.transport.is_closing() and (self._open.is_last or self.cycle.more_body):
            self._end()

    def send_400_response(self, msg: str) -> None:
        self.refuse(self._refusal or BadInput(f"request: {msg}"))

    def refuse(self, error: Exception) -> None:
        """Drops what comes from now on; answers the error after the open responses, and closes the connection."""
        if not self._open.is_last:
            self._open.is_last, self._refusal = True, error
            if not self._open or self._open.abandon_broken(error):
                self._end()
            elif self._open.is_held or self._open[-1].more_body:
                self._open.leave()

    def _end(self) -> None:
        """Answers the refusal, if there is one, and ends the connection when the client has read it."""
        self._unset_keepalive_if_required()
        if self._refusal is not None:
            self.transport.write(_answer_of(self._refusal))
        if self._is_surplus or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self.flow.resume_reading()
            self._open.end_sending()

    @property
    def phase(self) -> Phase:
        """Its phase. It waits for the rest of a body only while the service wants it."""
        if self._open and not self.transport.is_closing():
            wants_more = self._open.waits_for_a_body() and not self._open.is_held and not self.flow.read_paused
            return Phase.BODY if wants_more else Phase.ANSWER
        is_over = self._open.is_last or self.transport.is_closing()
        return Phase.LAST if is_over else Phase.HEAD if self._head_size or self._open.has_had_none else Phase.IDLE

    def end(self, error: Exception, *, at_once: bool) -> None:
        """Ends it. A request that has come in part is answered with the error, if nothing was answered yet."""
        self._is_surplus = self._is_surplus or at_once
        phase, is_tls = self.phase, not self.transport.can_write_eof()  # which would wait for the client to close, too
        is_gone = self.transport.get_write_buffer_size() or self.transport.is_closing() or (at_once and is_tls)
        if not is_gone and (phase is Phase.BODY or (phase is Phase.HEAD and self._head_size)):
            return self.refuse(error)
        self._open.tell_gone()
        return (self.transport.abort if is_gone else self.transport.close)()

    def shutdown(self) -> None:
        self._limits.is_draining = True
        super().shutdown()


def _answer_of(error: Exception) -> bytes:
    """A whole error answer, after which the connection is closed."""
    problem, headers = problem_of(error)
    payload = msgspec.json.encode(problem)
    pairs = [(b"content-type", MEDIA), (b"content-length", b"%d" % len(payload)), *headers]
    pairs = [pair for pair in pairs if pair[0] != b"connection"] + [(b"connection", b"close")]
    head = b"".join([b"%s: %s\r\n" % pair for pair in pairs])
    status = HTTPStatus(problem.status)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), head, payload)
