"""The requests of one connection that are not answered yet: what may come behind them, and who learns that the client has gone.

A client may send requests before it has the responses to those before them. They are read on behind an open response, up to 64 KiB and a
hundred requests, because only a server that reads learns that the client has gone; all open requests learn it (uvicorn tells the newest). A
request that the service holds, a pop that waits or a stream, is not waited for: one more request behind it ends it as if the client had
gone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tarry.programs.serving.connection_limits import EXTENSION, PortLimits

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential

MOST_BEHIND = 64 << 10
"""How many bytes are read behind an open response."""
MOST_OPEN = 100
"""How many requests of a connection may be open."""


class OpenRequests(deque[Any]):
    """uvicorn's cycles of request and response, the oldest first."""

    is_held = is_last = False
    """Whether the service holds the oldest; whether no more are read."""
    has_had_none = True
    """Whether no request has come yet."""
    _size_behind = 0
    _keeps_alive = True
    """Whether the newest may leave the connection open."""
    is_authorized = False
    """Whether a request had a token that is still valid, or was permitted where none is needed."""
    credential: Credential | None
    """Of the last such request."""
    on_authorized: Callable[[], None]
    refusal: Exception | None = None
    """The error that was answered in place of a response."""

    def __init__(self, connection: Any, limits: PortLimits) -> None:
        super().__init__()
        self._connection, self._limits, transport = connection, limits, connection.transport
        self._transport: asyncio.Transport = transport
        self.write, self.is_closing = transport.write, transport.is_closing  # for cycles this is the transport

    def close(self) -> None:
        """Closes the connection; not behind a response that was sent before its body had come: ``HTTPProtocol`` does that."""
        if not (self and self[-1].response_complete and self[-1].more_body):
            self._transport.close()

    def add(self, cycle: Any) -> None:
        self.append(cycle)
        self.has_had_none = False
        cycle.transport, self._keeps_alive, cycle.keep_alive = self, cycle.keep_alive, False
        cycle.scope["extensions"] = {EXTENSION: self}
        if self.is_held:
            self.leave()

    def complete_body(self) -> None:
        """The newest has its body. A response before that says ``Connection: close``."""
        if self and not self[-1].response_started:
            self[-1].keep_alive = self._keeps_alive

    def remove_answered(self) -> None:
        self.popleft()
        self._size_behind = 0
        if not self.is_authorized:
            self._limits.note_stranger(self._connection, is_open=len(self) > 0)

    def authorize(self, credential: Credential | None) -> None:
        """A request has a valid token, or is permitted where none is needed."""
        self.credential = credential
        if not self.is_authorized:
            self._limits.authorize(self._connection, self)
            self.on_authorized()

    def abandon_broken(self, error: Exception) -> bool:
        """Whether the error in a body can be answered in place of the only request's response, which then is not sent."""
        if not self.waits_for_a_body() or self[-1].response_started:
            return False
        self.refusal = error
        self.tell_gone()
        self.clear()
        return True

    def waits_for_a_body(self) -> bool:
        """Whether one request is open, and its body is still to come."""
        return len(self) == 1 and bool(self[-1].more_body)

    def hold(self, begins: bool) -> None:
        """The service begins to hold the oldest request, or ends to."""
        self.is_held = begins
        if begins and (len(self) > 1 or self.is_last):
            self.leave()

    def end_sending(self) -> None:
        """Lets the client read the last answer: closed with unread input, the connection would be reset."""
        self.is_last = True
        try:
            self._transport.write_eof()
        except OSError:  # it has gone
            self._transport.abort()

    def leave(self) -> None:
        """Ends the connection as if the client had gone."""
        self.is_last = True
        self.tell_gone()
        self._transport.close()

    def tell_gone(self) -> None:
        for cycle in self:
            cycle.disconnected = True
            cycle.message_event.set()

    def note_read(self, data: bytes) -> None:
        """Counts what was read, and stops reading when too much came behind an open response."""
        if len(self) > 1:
            self._size_behind += len(data)
            flow = self._connection.flow
            (flow.pause_reading if self._size_behind > MOST_BEHIND else flow.resume_reading)()
        if not self.is_authorized:
            self._limits.note_stranger(self._connection, is_open=len(self) > 0)
