"""How long a connection may live, by what it waits for, and how many connections a port may have: the same for all ports.

phase     what it waits for                       how long
HEAD      a TLS handshake, a command, or a head    10 s, however many of its bytes come
BODY      the rest of a request                   30 s, of the first request from the connection on; longer while 4 KiB/s come
ANSWER    the service, which works or waits       no limit
LAST      the client, which has its last answer   10 s; 3 s while the service stops
IDLE      the next request                        what the port says

In every phase an answer of which nothing is read for 30 s, or for 3 s while the service stops, ends its connection.

A port looks at all its connections once a second, and only while it has some: requests cost no timer. A look takes the time as an
argument. The ports of a process have equal shares of its files. Where a share is used up, a new connection takes the place of
another one: first of those that were never authorized, or whose token was revoked since, the one that was silent for longest, then the one whose request has been
open for longest; then of the authorized ones that are idle, the one that was silent for longest.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from tarry.programs.serving.listener import max_file_number
from tarry.programs.serving.problems import TooManyConnections, TooSlow
from tarry.programs.serving.turns import Turns

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential

HEAD_S = 10.0
"""How long a head may take, and a connection until its token where beanstalkd's clients need one."""
REQUEST_S = 30.0
"""How long a request may take to arrive, whatever its speed."""
MIN_RATE, RATE_WINDOW_S = 4 << 10, 10.0
"""How many bytes a second must come of a request that takes longer, on average over how many seconds."""
UNREAD_S = 30.0
"""How long an answer may lie unread without progress."""
LAST_S = 10.0
"""How long the client may take to read the last answer, and to end the connection."""
WHILE_DRAINING_S = 3.0
"""How long each of these two may take while the service stops."""
IDLE_S = 75
"""How long an HTTP connection is kept between two requests."""
LOOK_S = 1.0
"""How often a port looks at its connections."""
MOST_SURPLUS = 16
"""How many connections for which there is no room are kept anyway: one may be a health check."""


class Phase(Enum):
    """A connection's phase, by what it waits for."""

    HEAD, BODY, ANSWER, LAST, IDLE = range(5)


class PortConnection(Protocol):
    """A connection, as far as the limits of its port depend on it."""

    transport: asyncio.Transport
    received: int
    """How many bytes it has received."""

    @property
    def phase(self) -> Phase: ...
    def end(self, error: Exception, *, at_once: bool) -> None:
        """Ends it, because of this error; ``at_once``: its file is needed."""
        ...


class Trusted(Protocol):
    """A connection that is authorized, or the part of it that knows this."""

    is_authorized: bool
    credential: Credential | None
    """Of its last permitted request; none where no token is needed."""


class FileShares:
    """The files that the connections of a process may have, in equal shares for its ports."""

    def __init__(self, most: float | None = None) -> None:
        self.most = max_file_number() if most is None else most
        self.ports = list[PortLimits]()

    @property
    def share(self) -> float:
        """How many connections a port may have."""
        return self.most / len(self.ports)


class _Seen:
    """A connection, as it was at the last look."""

    __slots__ = ("is_first", "mark", "phase", "received", "since", "unread", "unread_since")

    def __init__(self, now: float) -> None:
        self.phase, self.since = Phase.HEAD, now
        self.is_first = True
        """Whether its first request has not arrived."""
        self.received, self.mark = 0, (now, 0)
        """The bytes that it had received; and when so many, at the begin of the window that the rate is measured over."""
        self.unread, self.unread_since = 0, now


class PortLimits:
    """The connections of one port."""

    def __init__(
        self, files: FileShares, knows_token: Callable[[str], bool], is_refused: Callable[[Credential | None], object]
    ) -> None:
        """``knows_token`` says whether a token that is shown is valid, ``is_refused`` whether one that was valid is no longer; without
        asking the server."""
        self.is_draining = False
        self._files, self.knows_token, self._is_refused = files, knows_token, is_refused
        files.ports.append(self)
        self._seen: dict[PortConnection, _Seen] = {}
        self.turns = Turns()
        self._strangers: dict[bool, dict[PortConnection, None]] = {False: {}, True: {}}
        """The connections that are not authorized, without and with an open request: the longest silent first."""
        self._trusted: dict[PortConnection, Trusted] = {}
        """The others."""
        self._surplus: dict[PortConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._none_is_idle = False
        """At the last search since the last look no authorized connection was idle."""

    def __len__(self) -> int:
        return len(self._seen)

    def __iter__(self) -> Iterator[PortConnection]:
        return iter(self._seen)

    def admit(self, connection: PortConnection) -> bool:
        """Begins to limit a connection. Returns whether there is room for it, if need be that of another one, which is closed."""
        loop = asyncio.get_running_loop()
        has_room = not self._is_full(connection) or self._evict_one()
        if not has_room and len(self._surplus) >= MOST_SURPLUS:
            self._evict(next(iter(self._surplus)))
        (self._strangers[False] if has_room else self._surplus)[connection] = None
        self._seen[connection] = _Seen(loop.time())
        self.turns.note_admission()
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look_again, loop)
        return has_room

    def remove(self, connection: PortConnection) -> None:
        """The connection has ended."""
        self._seen.pop(connection, None)
        self._surplus.pop(connection, None)
        self._trusted.pop(connection, None)
        self._forget_stranger(connection)
        if not self._seen and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def authorize(self, connection: PortConnection, trusted: Trusted) -> None:
        """The connection has had a valid token, or a permitted request where none is needed. It is trusted until that would be refused."""
        self._forget_stranger(connection)
        trusted.is_authorized = True
        if connection in self._seen:
            self._trusted[connection] = trusted

    def _forget_stranger(self, connection: PortConnection) -> None:
        for strangers in self._strangers.values():
            strangers.pop(connection, None)

    def note_stranger(self, connection: PortConnection, *, is_open: bool) -> None:
        """A connection that is not authorized has sent something, or its answer was sent; ``is_open``: a request is open, or waits
        for its turn."""
        if connection in self._seen and connection not in self._surplus:
            self._forget_stranger(connection)
            self._strangers[is_open][connection] = None

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _is_full(self, connection: PortConnection) -> bool:
        """Whether a new connection is one too many. A new file has the lowest number that is free, so its number says how many are
        open, those of others included."""
        file: socket.socket | None = connection.transport.get_extra_info("socket")
        return len(self._seen) - len(self._surplus) >= self._files.share or (
            file is not None and file.fileno() >= self._files.most
        )

    def _evict_one(self) -> bool:
        victim = next((one for strangers in self._strangers.values() for one in strangers), None)
        if victim is None and not self._none_is_idle:
            idle = [one for one in self._seen if one.phase is Phase.IDLE and one not in self._surplus]
            victim = min(idle, key=lambda one: self._seen[one].since, default=None)
            self._none_is_idle = victim is None
        if victim is not None:
            self._evict(victim)
        return victim is not None

    def _evict(self, connection: PortConnection) -> None:
        self.remove(connection)
        connection.end(TooManyConnections(), at_once=True)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(LOOK_S, self._look_again, loop)
        self.look(loop.time())

    def look(self, now: float) -> None:
        """Ends the connections that take too long, and trusts those no longer whose token was revoked."""
        self._none_is_idle = False
        for connection, trusted in list(self._trusted.items()):
            if self._is_refused(trusted.credential):
                trusted.is_authorized = False
                del self._trusted[connection]
                self.note_stranger(connection, is_open=False)
        for connection, seen in list(self._seen.items()):
            if self._lies_unread(connection, seen, now):
                connection.transport.abort()
            elif self._is_late(connection, seen, now):
                connection.end(TooSlow(), at_once=False)

    def _lies_unread(self, connection: PortConnection, seen: _Seen, now: float) -> bool:
        """Whether nothing was read of an answer for too long. One that grew was below the size at which senders pause."""
        unread = connection.transport.get_write_buffer_size()
        if not unread or unread != seen.unread:
            seen.unread, seen.unread_since = unread, now
        return now - seen.unread_since >= (WHILE_DRAINING_S if self.is_draining else UNREAD_S)

    def _is_late(self, connection: PortConnection, seen: _Seen, now: float) -> bool:
        """Whether the phase of a connection took too long."""
        phase, received = connection.phase, connection.received
        has_received, seen.received = received != seen.received, received
        if phase is not seen.phase:
            continues = seen.is_first and phase is Phase.BODY
            seen.phase = phase
            if not continues:
                seen.since, seen.is_first = now, False
            seen.mark = (now, received)
        elif phase is Phase.IDLE and has_received:
            seen.since = now
        age = now - seen.since
        if phase is not Phase.BODY:
            last_s = WHILE_DRAINING_S if self.is_draining else LAST_S
            return age >= {Phase.HEAD: HEAD_S, Phase.LAST: last_s}.get(phase, age + 1)
        begin, before = seen.mark
        is_judged = age >= REQUEST_S and now - begin >= RATE_WINDOW_S
        if is_judged or age < REQUEST_S - RATE_WINDOW_S:
            seen.mark = (now, received)
        return is_judged and received - before < MIN_RATE * (now - begin)


class ServedConnection:
    """The connection of a request, as the application knows it. This one is of another HTTP server, which need not know."""

    refusal: Exception | None = None
    """The error that the connection has answered in place of a response: the rest of the body is wrong, or too slow."""

    def hold(self, begins: bool) -> None:
        """The application begins to hold the request, or ends to: it waits, or streams."""

    def authorize(self, credential: Credential | None) -> None:
        """The request has a valid token, or is permitted where none is needed."""

    def waits_for_a_body(self) -> bool:
        """Whether one request is open, and its body is still to come."""
        return False


EXTENSION = "tarry.connection"
"""The extension of ASGI that is the connection."""
_OTHER = ServedConnection()


def connection_of(scope: Any) -> ServedConnection:
    """The connection of an ASGI request."""
    try:
        found: ServedConnection = scope["extensions"][EXTENSION]
    except KeyError:
        return _OTHER
    return found
