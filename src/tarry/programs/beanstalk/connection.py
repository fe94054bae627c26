"""One connection: bytes become commands, which are performed one after the other; their replies go out in the same order.
Puts that have arrived together, or deletes, go to the server in one pipeline.

An idle connection is a socket and a few small objects. A task exists only while a command runs. At most one read beyond the
commands that run is held: a client that sends faster is read no further, and one that reads no replies gets no more commands
performed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from tarry.errors import TarryError
from tarry.internal import failures
from tarry.programs.beanstalk.commands import BAD_FORMAT, HTTP, LONGEST_LINE, BeanstalkCommand, ProtocolError, parse
from tarry.programs.beanstalk.session import CLOSE, OUT_OF_MEMORY, TIMED_OUT, Session
from tarry.programs.serving.connection_limits import Phase, PortLimits

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential

logger = logging.getLogger("tarry.beanstalk")
CRLF = b"\r\n"
READ_AHEAD = 1 << 16
"""Bytes that are read beyond the command that runs."""
INTERNAL_ERROR = b"INTERNAL_ERROR\r\n"
TOGETHER, MOST_TOGETHER = frozenset({"put", "delete"}), 64
"""Which commands, pipelined by a client, go to the server in one pipeline, and how many: none of them depends on the one before."""
TOO_LONG = b"..."
"""A line that is too long; its bytes are forgotten."""
JOB_TOO_BIG, EXPECTED_CRLF = b"JOB_TOO_BIG\r\n", b"EXPECTED_CRLF\r\n"
Found = tuple[BeanstalkCommand | bytes, bytes]
"""A command and its body, or the reply to what is no command."""


class ConnectionHost(Protocol):
    """The server, as far as its connections know it."""

    limits: PortLimits

    @property
    def needs_token(self) -> bool: ...
    def opened(self, connection: Connection) -> None: ...
    def closed(self, connection: Connection, running: asyncio.Task[None] | None) -> None: ...
    async def perform(self, connection: Connection, command: BeanstalkCommand, body: bytes) -> bytes: ...
    def count(self, command: str, reply: bytes) -> None: ...


class Connection(asyncio.Protocol):
    """A connection of a client."""

    transport: asyncio.Transport

    def __init__(self, server: ConnectionHost, max_job_size: int) -> None:
        self.session: Session | None = None
        self.token: str | None = None
        """The token of its ``auth`` command."""
        self.is_authorized, self.credential = False, cast("Credential | None", None)
        """Whether it has had a token that is still valid, or a command that needs none; and the credential of that."""
        self.received = 0
        self._server = server
        self._max_job_size = max_job_size
        self._buffer = bytearray()
        self.admission = asyncio.Lock()
        """Commands wait for a token's limits one after the other."""
        self._put: BeanstalkCommand | None = None
        """A ``put`` whose body has not arrived."""
        self._skip = 0
        """Bytes of a body that is too big and still to come."""
        self._in_long_line = self._ended = self._reading_paused = False
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # ── what the loop calls ──────────────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has another base
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self.received += len(data)
        if self._task is None:
            self._work()
        elif len(self._buffer) > READ_AHEAD and not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()
        if not self.is_authorized:
            self._server.limits.note_stranger(self, is_open=self.is_busy)

    def eof_received(self) -> bool:
        """The client sends no more; it may still read the replies to what it has sent."""
        self._ended = True
        if self.session is not None:
            self.session.interrupt(TIMED_OUT)
        if self._task is None:
            self.transport.close()
        return True

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._ended = True
        self._buffer.clear()
        if self._task is not None:
            self._task.cancel()
        self._server.closed(self, self._task)

    # ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def phase(self) -> Phase:
        """Its phase. While it has reserved jobs it is not idle, because an idle connection gives them back."""
        if not self.is_authorized and self._server.needs_token:
            return Phase.HEAD
        return Phase.ANSWER if self.is_busy or (self.session is not None and self.session.reserved) else Phase.IDLE

    def end(self, error: Exception, *, at_once: bool) -> None:  # noqa: ARG002  # the protocol has no words for it
        """Ends it: it has not sent ``auth`` in time, or its file is needed."""
        self.transport.abort()

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_busy(self) -> bool:
        """Whether a command runs."""
        return self._task is not None

    def _work(self) -> None:
        """Performs what has arrived, in a task if there is a complete command."""
        first = self._next()
        if first is not None:
            self._task = asyncio.ensure_future(self._perform_all(first))
            failures.watch_task("tarry beanstalkd", self._task)

    async def _perform_all(self, first: Found) -> None:
        found: Found | None = first
        try:
            while found is not None and not self.transport.is_closing():
                command, body = found
                if not self.is_authorized:  # a refusal takes no wait: thousands of them would stop all others
                    limits = self._server.limits
                    shown = command.args[0] if isinstance(command, BeanstalkCommand) and command.name == "auth" else ""
                    await limits.turns.turn(shows_token=limits.knows_token(shown))
                if isinstance(command, bytes):
                    reply, found = command, None
                else:
                    batch, found = self._batch(command, body)
                    if len(batch) == 1:
                        reply = await self._perform(command, body)
                    else:
                        reply = b"".join(await asyncio.gather(*[self._perform(*each) for each in batch]))
                if reply is CLOSE:
                    self.transport.close()
                    return
                self.transport.write(reply)
                if not self._writable.is_set():
                    await self._writable.wait()
                found = found or self._next()
        finally:
            self._task = None
        if self._ended:
            self.transport.close()
        elif self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    def _batch(
        self, command: BeanstalkCommand, body: bytes
    ) -> tuple[list[tuple[BeanstalkCommand, bytes]], Found | None]:
        """A command, and those that have arrived with it and may be performed with it; and what is behind them."""
        batch = [(command, body)]
        while command.name in TOGETHER and (found := self._next()) is not None:
            following, body = found
            if isinstance(following, bytes) or following.name != command.name or len(batch) == MOST_TOGETHER:
                return batch, found
            batch.append((following, body))
        return batch, None

    async def _perform(self, command: BeanstalkCommand, body: bytes) -> bytes:
        if command.name == "quit":
            return CLOSE
        try:
            reply = await self._server.perform(self, command, body)
        except TarryError as fault:
            logger.warning("%s: %s", command.name, fault)
            reply = OUT_OF_MEMORY if str(fault).startswith("The server's memory is full") else INTERNAL_ERROR
        except Exception:
            logger.exception("%s failed", command.name)
            reply = INTERNAL_ERROR
        self._server.count(command.name, reply)
        return reply

    # ── framing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self) -> Found | None:
        """The next complete command and its body, or a reply to what is none; ``None`` until more arrives."""
        if self._skip:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            return None if self._skip else (JOB_TOO_BIG, b"")
        if self._put is not None:
            return self._next_body(self._put)
        line = self._next_line()
        if line is None:
            return None
        if line is TOO_LONG:
            return BAD_FORMAT, b""
        if HTTP.match(line):
            self.transport.abort()
            return None
        try:
            command = parse(line)
        except ProtocolError as fault:
            return fault.reply, b""
        if command.name != "put":
            return command, b""
        if command.size > self._max_job_size:
            self._skip = command.size + len(CRLF)
            return self._next()
        self._put = command
        return self._next_body(command)

    def _next_line(self) -> bytes | None:
        """The next complete line without its end, or ``TOO_LONG``; ``None`` until more arrives."""
        end = self._buffer.find(CRLF, 0, None if self._in_long_line else LONGEST_LINE)
        if end < 0 and len(self._buffer) >= LONGEST_LINE:
            if not self._in_long_line and HTTP.match(self._buffer):
                self.transport.abort()
                return None
            self._in_long_line = True
            end = self._buffer.find(CRLF)
        if end < 0:
            if self._in_long_line:  # only a CR at the end may belong to the end of the line
                del self._buffer[: -1 if self._buffer.endswith(b"\r") else None]
            return None
        line = TOO_LONG if self._in_long_line else bytes(self._buffer[:end])
        del self._buffer[: end + len(CRLF)]
        self._in_long_line = False
        return line

    def _next_body(self, put: BeanstalkCommand) -> Found | None:
        if len(self._buffer) < put.size + len(CRLF):
            return None
        body = bytes(self._buffer[: put.size])
        complete = self._buffer.startswith(CRLF, put.size)
        del self._buffer[: put.size + len(CRLF)]
        self._put = None
        return (put, body) if complete else (EXPECTED_CRLF, b"")
