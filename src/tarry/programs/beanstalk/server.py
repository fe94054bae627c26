"""The listener for beanstalkd's clients: its connections, tokens, counters, and how it drains.

SIGTERM ──▶ drain: put gets DRAINING, waits end ──▶ connections without reserved jobs are closed, the others when they have
            settled them, or after some seconds ──▶ what is still reserved is released
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge

from tarry.errors import BadInput, ServerUnfit, TarryError
from tarry.internal import failures
from tarry.programs.beanstalk.commands import BeanstalkCommand
from tarry.programs.beanstalk.connection import Connection
from tarry.programs.beanstalk.server_state import ServerState
from tarry.programs.beanstalk.session import CLOSE, DRAINING, Session
from tarry.programs.beanstalk.tubes import Tubes
from tarry.programs.serving.authorization import Credential, TokenBucket
from tarry.programs.serving.connection_limits import PortLimits
from tarry.programs.serving.listener import WITHOUT_TOKENS, is_loopback, open_listener
from tarry.programs.serving.problems import Forbidden, NoToken

if TYPE_CHECKING:
    from tarry.programs.serving.host import ServiceHost
    from tarry.wire.endpoint import Scope

logger = logging.getLogger("tarry.beanstalk")
PORT = 11300
MAX_JOB_SIZE = 65_535
SETTLE_S = 10.0
"""How long a connection with reserved jobs may stay open while the server drains."""
AUTHORIZED, UNAUTHORIZED = b"AUTHORIZED\r\n", b"UNAUTHORIZED\r\n"
_SCOPES: dict[str, frozenset[Scope]] = {
    **dict.fromkeys(("put", "kick", "kick-job"), frozenset({"produce", "admin"})),
    "pause-tube": frozenset({"admin"}),
    **dict.fromkeys(
        ("reserve", "reserve-with-timeout", "reserve-job", "release", "bury", "touch"), frozenset({"consume", "admin"})
    ),
    "delete": frozenset({"produce", "consume", "admin"}),
    **dict.fromkeys(
        ("peek", "peek-ready", "peek-delayed", "peek-buried", "stats", "stats-job", "stats-tube", "list-tubes"),
        frozenset({"view", "consume", "admin"}),
    ),
}
"""Which scopes permit a command; one that is not here concerns the connection only."""
WAITING = frozenset({"reserve", "reserve-with-timeout"})
_COUNTED_JOBS = WAITING | {"put", "reserve-job"}
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3))
"""A client whose machine is gone is noticed within two minutes."""


@dataclass(frozen=True, slots=True)
class BeanstalkSettings:
    """Where to listen, and for whom."""

    host: str = "127.0.0.1"
    port: int = PORT
    namespace: str | None = None
    """Clients without a token work in this namespace; ``None``: in the service's first one, as long as it needs no tokens."""
    max_job_size: int = MAX_JOB_SIZE


class BeanstalkServer:
    """Serves beanstalkd's clients beside a service. ``stop`` and ``close`` are called by the service."""

    def __init__(self, app: ServiceHost, settings: BeanstalkSettings) -> None:
        self.settings = settings
        self.state = ServerState(settings.max_job_size, lambda: self.sessions)
        self._app = app
        self.limits = PortLimits(app.files, app.authorizer.knows_token, self._refusal_of)
        self._connections: dict[Connection, None] = {}
        self._tubes: dict[str, Tubes] = {}
        self._giving_back: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self._counters: dict[tuple[str, bytes], CounterMetric] = {}
        self._replies = CounterMetric(
            "tarry_beanstalk_commands",
            "Commands of beanstalkd's protocol, by the first word of the reply.",
            ("command", "reply"),
            registry=app.metrics.registry,
        )
        gauges = {
            "connections": ("Open connections of beanstalkd's clients.", lambda: len(self._connections)),
            "waiting": ("Connections that wait for a job.", lambda: sum(one.waiting for one in self.sessions)),
            "reserved": (
                "Jobs that are reserved by connections.",
                lambda: sum(len(one.reserved) for one in self.sessions),
            ),
        }
        for name, (words, count) in gauges.items():
            Gauge(f"tarry_beanstalk_{name}", words, registry=app.metrics.registry).set_function(count)

    # ── lifecycle ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def listen(self, listener: socket.socket) -> None:
        """Serves on a socket that listens."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: Connection(self, self.settings.max_job_size), sock=listener, backlog=2048
        )

    def stop(self) -> None:
        """Drains: no new connections, no new jobs, no more waiting."""
        if self.state.draining:
            return
        self.state.draining = self.limits.is_draining = True
        self._settle_until = time.monotonic() + SETTLE_S
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            if not connection.is_authorized:
                connection.transport.abort()
            elif connection.session is not None:
                connection.session.interrupt(DRAINING)

    async def close(self) -> None:
        """Lets connections settle their jobs for some seconds from ``stop`` on, then closes them and releases what they have left."""
        self.stop()
        while self._connections and time.monotonic() < self._settle_until:
            for connection in list(self._connections):
                if not connection.is_busy and not (connection.session and connection.session.reserved):
                    connection.transport.close()
            if self._connections:
                await asyncio.sleep(0.05)
        for connection in list(self._connections):
            connection.transport.abort()
        while self._connections or self._giving_back:
            await asyncio.sleep(0)
            if self._giving_back:
                await asyncio.wait(set(self._giving_back))

    # ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sessions(self) -> list[Session]:
        """The sessions of the open connections."""
        return [one.session for one in self._connections if one.session is not None]

    def opened(self, connection: Connection) -> None:
        """Counts a connection, or refuses it if there are too many or the server drains."""
        found = connection.transport.get_extra_info("socket")
        if self.state.draining or not self.limits.admit(connection):
            connection.transport.abort()
            return
        self.state.accepted += 1
        self._connections[connection] = None
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEP_ALIVE:
                if hasattr(socket, name):
                    found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if not self.needs_token:
            self._begin(connection, self.open_namespace)

    def closed(self, connection: Connection, running: asyncio.Task[None] | None) -> None:
        """Releases what the connection had reserved."""
        self._connections.pop(connection, None)
        self.limits.remove(connection)
        if running is None and connection.session is not None and not connection.session.reserved:
            connection.session.end()
        elif running is not None or connection.session is not None:
            task = asyncio.ensure_future(self._give_back(connection, running))
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)
            failures.watch_task("tarry beanstalkd", task)

    async def _give_back(self, connection: Connection, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait({running})
        if connection.session is None:
            return
        try:
            await connection.session.give_back()
        except TarryError as fault:
            logger.warning("Jobs of a closed connection come back after their time to run: %s", fault)
        finally:
            connection.session.end()

    # ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform(self, connection: Connection, command: BeanstalkCommand, body: bytes) -> bytes:
        """Authorizes a command and performs it."""
        if command.name == "auth":
            return await self._authenticate(connection, command.args[0])
        authorizer = self._app.authorizer
        try:
            credential = await self._authorize(connection, command.name)
        except (NoToken, Forbidden):
            return UNAUTHORIZED
        session = connection.session
        assert session is not None
        if command.name not in WAITING or (credential is None and self.settings.namespace is not None):
            return await session.perform(command, body)
        with authorizer.telling_refusal(credential, partial(session.interrupt, UNAUTHORIZED)):
            reply = await session.perform(command, body)
        if reply.startswith(b"RESERVED") and authorizer.refusal_of(credential):
            await session.give_back()
            return UNAUTHORIZED
        return reply

    def count(self, command: str, reply: bytes) -> None:
        """Counts a command that was performed."""
        self.state.commands[command] += 1
        word = reply.split(None, 1)[0] if reply is not CLOSE else b"closed"
        counter = self._counters.get((command, word))
        if counter is None:
            counter = self._counters[command, word] = self._replies.labels(command, word.decode())
        counter.inc()

    @property
    def needs_token(self) -> bool:
        """Whether a connection must begin with ``auth``."""
        return self.settings.namespace is None and self._app.authorizer.settings.tokens

    @property
    def open_namespace(self) -> str:
        """The namespace of connections without a token."""
        return self.settings.namespace or self._app.settings.namespaces[0]

    def _begin(self, connection: Connection, namespace: str) -> None:
        tubes = self._tubes.get(namespace)
        if tubes is None:
            tubes = self._tubes[namespace] = Tubes(self._app.clients, namespace)
        connection.session = Session(self.state, tubes)

    async def _authenticate(self, connection: Connection, text: str) -> bytes:
        """A session in the token's namespace."""
        try:
            credential = await self._app.authorizer.authenticate(text)
        except NoToken:
            return UNAUTHORIZED
        if connection.session is not None:
            if connection.session.tubes.namespace != credential.namespace and connection.session.reserved:
                return UNAUTHORIZED
            await connection.session.give_back()
            connection.session.end()
        connection.token = text
        self._trust(connection, credential)
        self._begin(connection, credential.namespace)
        return AUTHORIZED

    def _trust(self, connection: Connection, credential: Credential | None) -> None:
        connection.credential = credential
        if not connection.is_authorized:
            self.limits.authorize(connection, connection)

    def _refusal_of(self, credential: Credential | None) -> NoToken | None:
        """Why a command with this credential would be refused now."""
        is_open = credential is None and self.settings.namespace is not None
        return None if is_open else self._app.authorizer.refusal_of(credential)

    async def _authorize(self, connection: Connection, name: str) -> Credential | None:
        """The credential of a command, where it needs one. Raises ``NoToken`` or ``Forbidden``. A token's limits make the connection
        wait."""
        if connection.token is None:
            if self.settings.namespace is None:
                await self._app.authorizer.detect_first_token()
            if self.needs_token or connection.session is None:
                raise NoToken
            self._trust(connection, None)
            return None
        async with connection.admission:
            credential = await self._authorize_by_token(connection.token, name)
        self._trust(connection, credential)
        return credential

    async def _authorize_by_token(self, token: str, name: str) -> Credential:
        credential = await self._app.authorizer.authenticate(token)
        scopes = _SCOPES.get(name)
        if scopes is not None and scopes.isdisjoint(credential.token.record.scopes):
            raise Forbidden(f"{name} needs the scope {' or '.join(sorted(scopes))}.")
        await self._wait_for_share(credential, credential.calls)
        if name in _COUNTED_JOBS:
            await self._wait_for_share(credential, credential.jobs)
        return credential

    async def _wait_for_share(self, credential: Credential, bucket: TokenBucket | None) -> None:
        while bucket is not None and (wait := bucket.take(1, time.monotonic())):
            await asyncio.sleep(wait)
            await self._app.authorizer.check_again(credential)


async def start(app: ServiceHost, settings: BeanstalkSettings, *, without_tokens: bool = False) -> str:
    """Listens beside a service, until that is closed. Returns the line to print. Raises ``BadInput``, or ``ServerUnfit`` where
    anybody could read and delete jobs."""
    is_open = settings.namespace is not None or without_tokens or app.settings.tokens
    if not is_open and not is_loopback(settings.host):
        names = ", ".join(app.clients.namespaces)
        raise ServerUnfit(WITHOUT_TOKENS.format(host=settings.host, namespaces=names))
    listener = open_listener(settings.host, settings.port)
    server = BeanstalkServer(app, settings)
    app.parts[BeanstalkServer] = server
    app.on_close.append(server.close)
    await server.listen(listener)
    host, port = listener.getsockname()[:2]
    rule = f"namespace {server.open_namespace}" if not server.needs_token else "auth TOKEN"
    return f"tarry: beanstalkd's clients at {f'[{host}]' if ':' in host else host}:{port}, {rule}"


def endpoint_of(text: str) -> tuple[str, int]:
    """The host and port of ``127.0.0.1:11300``, ``[::1]:11300`` or a port alone. Raises ``BadInput``."""
    host, separator, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535 or (separator and not host):
        raise BadInput(f"beanstalk: {text!r} is not an address; give a host and a port, such as 127.0.0.1:{PORT}.")
    return host.strip("[]") or "127.0.0.1", int(port)
