"""One connection for the requests of a whole event loop: the replies come in the order of the requests.

    send a ─▶ send b ─▶ …        written at once, each with a callback for its replies
    data_received ─▶ a's replies ─▶ b's replies

The driver opens the connection; from then on the transport passes what arrives to this protocol, and hiredis parses it. No task
and no timer is made for a request: one timer looks after the oldest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tarry.connections.faults import ConnectionLost, Fault, fault_of
from tarry.connections.resp import (
    BUFFERED_TIMEOUT_S,
    NOT_ENOUGH_DATA,
    Outgoing,
    Replies,
    pack_all,
    reply_of,
    reply_reader,
)

OnReplies = Callable[[Replies], object]
"""Called once with a value or a ``Fault`` for each command. It does not raise."""


class PipelinedConnection(asyncio.Protocol):
    """A connection that the driver has opened, for requests."""

    def __init__(self, driver: Any, answer_timeout_s: float) -> None:
        self.driver = driver
        self._transport = writer_of(driver).transport
        self._reader = reply_reader(driver)
        self._answer_timeout_s = answer_timeout_s
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[tuple[int, Replies, OnReplies]] = deque()
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._resumed: asyncio.Future[None] | None = None
        self._lost = False
        self._transport.set_protocol(self)

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        closing: bool = self._lost or self._transport.is_closing()
        return closing

    async def until_resumed(self) -> None:
        """Waits until its buffer is no longer full, or it is lost. Raises ``ConnectionLost``."""
        if self._resumed is not None:
            try:
                async with asyncio.timeout(self._answer_timeout_s):
                    await asyncio.shield(self._resumed)
            except TimeoutError:
                self.lose(self._silence())
                raise self._silence() from None

    def send(self, commands: Sequence[Outgoing], on_replies: OnReplies) -> bool:
        """Sends commands, at least one, if the connection is open and its buffer is not full. Returns whether it did. Raises if they
        cannot be packed; nothing was sent then."""
        if self._resumed is not None or self._lost or self._transport.is_closing():
            return False
        first, number = commands[0], len(commands)
        packed = first if type(first) is bytes and number == 1 else pack_all(commands)
        try:
            self._transport.write(packed)
            if not self._unanswered:
                self._restart_timeout()
            self._unanswered.append((number, [], on_replies))
            return True
        except BaseException:  # of a signal handler: perhaps it was sent, and its reply would be the next request's
            self.lose(_interruption())
            raise

    def lose(self, fault: Fault, *, for_all: bool = False) -> None:
        """Closes the connection: the oldest unanswered request gets the fault, the others that the connection broke, or the fault
        ``for_all``."""
        if self._lost:
            return
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake_senders()
        abort_connection(self.driver)
        while self._unanswered:
            expected, replies, on_replies = self._unanswered.popleft()
            on_replies(replies + [fault] * (expected - len(replies)))
            if not for_all:
                fault = ConnectionLost("the connection broke before the reply to an earlier request")

    # ── called by the transport ──────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            parsed = reader.gets()
            while parsed is not NOT_ENOUGH_DATA:
                expected, replies, on_replies = self._unanswered[0]
                replies.append(reply_of(parsed))
                if expected == 1 or len(replies) == expected:
                    self._unanswered.popleft()
                    if self._unanswered:
                        self._restart_timeout()
                    on_replies(replies)
                parsed = reader.gets()
        except (
            BaseException
        ) as error:  # a reply that ends the connection, one that nobody asked for, or a signal handler's
            self.lose(fault_of(error) if isinstance(error, Exception) else _interruption())
            if not isinstance(error, Exception):
                raise

    def eof_received(self) -> None:
        """The transport would first wait until all is sent, which may be never."""
        self.lose(ConnectionLost("Connection closed by server."))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(ConnectionLost("Connection closed by server.") if exc is None else fault_of(exc))

    def pause_writing(self) -> None:
        self._resumed = self._loop.create_future()

    def resume_writing(self) -> None:
        if not self._lost:
            self._restart_timeout()
            self._wake_senders()

    def _wake_senders(self) -> None:
        if self._resumed is not None:
            self._resumed.set_result(None)
            self._resumed = None

    # ── timeouts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _restart_timeout(self) -> None:
        """The oldest request has the whole time for its replies."""
        self._deadline = self._loop.time() + self._answer_timeout_s
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check)

    def _check(self, *, again: bool = False) -> None:
        self._timer = None
        if not self._unanswered:
            return
        if (left := self._deadline - self._loop.time()) > 0:
            self._timer = self._loop.call_later(left, self._check)
        elif not again:  # perhaps this loop was blocked, not the server: first read what has arrived
            self._timer = self._loop.call_later(BUFFERED_TIMEOUT_S, lambda: self._check(again=True))
        else:
            self.lose(self._silence())

    def _silence(self) -> ConnectionLost:
        return ConnectionLost(f"no answer for {self._answer_timeout_s:g} s")


def _interruption() -> ConnectionLost:
    return ConnectionLost("a signal handler raised an error while the connection was used")


def writer_of(connection: Any) -> Any:
    """The stream on which a driver's connection writes; ``None`` when it is closed."""
    return connection._writer  # noqa: SLF001  # redis-py has no public name for it


def abort_connection(connection: Any) -> None:
    """Closes a driver's connection at once: ``disconnect()`` has to be awaited, and one with TLS would wait for the peer's
    close_notify, even when its event loop is closed."""
    writer = writer_of(connection)
    connection._reader = connection._writer = None  # noqa: SLF001  # nor a way to take them from it
    if writer is not None:
        writer.transport.abort()
