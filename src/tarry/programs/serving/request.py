"""One HTTP request: its query, headers and body, the client that it may use, and whether it is still connected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, suppress
from email.message import Message as Header
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from msgspec import Struct

from tarry import AsyncTopic
from tarry.errors import BadInput
from tarry.internal import Operation, moment_us, perform, replaying, server_verbs
from tarry.programs.serving import idempotency
from tarry.programs.serving.connection_limits import connection_of
from tarry.programs.serving.problems import Draining, TooLarge, WrongCoding

if TYPE_CHECKING:
    from tarry import AsyncClient, AsyncJob
    from tarry.programs.serving.authorization import Authorizer, Credential
    from tarry.programs.serving.host import RequestSettings
    from tarry.programs.serving.namespace_clients import NamespaceClients
    from tarry.programs.serving.router import Route
    from tarry.wire.bodies import Body

MOST_DROPPED, DROP_S = 64 << 10, 0.25
"""A refused request's body is read and thrown away if it has at most this many bytes, within this many seconds."""
LONGEST_MEDIA = 1000
"""The most bytes of a content type."""
JSON_TYPE = "application/json"
UTF_8 = ("", "utf-8", "utf8", "us-ascii")
"""Charsets of UTF-8, or a part of it."""
PLAIN = (b"", b"identity")
"""Content codings that do not change the body."""
R = TypeVar("R")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):  # never sent: there is no client any more
    """The client has disconnected; jobs that were popped for it were released."""


class Application(Protocol):
    """The application, as handlers and the parts of the service know it."""

    clients: NamespaceClients
    authorizer: Authorizer
    metrics: Any
    """The counters of the service."""
    draining: bool
    version: str
    moved_queues: tuple[str, ...]

    @property
    def settings(self) -> RequestSettings: ...
    @property
    def document(self) -> bytes:
        """The body of ``/openapi.json``."""
        ...

    def cancelled_on_drain(self, work: asyncio.Future[Any]) -> AbstractContextManager[None]:
        """Cancels the work when the service drains."""
        ...

    def shared_part(self, kind: Any) -> Any:
        """The one object of a class; its ``stop()`` is called when the service drains."""
        ...


def media_header(media: bytes) -> Header:
    """A content type, whose parameters can be asked for. Raises ``BadInput`` for one that is too long."""
    if len(media) > LONGEST_MEDIA:  # email takes quadratic time for many parameters
        raise BadInput(f"content-type: it has {len(media)} bytes; send at most {LONGEST_MEDIA}.")
    header = Header()
    header["content-type"] = media.decode("latin-1")
    return header


async def drop_body(scope: Any, headers: Mapping[bytes, bytes], receive: Receive) -> None:
    """Reads a short body that nobody wants. The answer before it would end the connection, and clients send head and body apart."""
    if not connection_of(scope).waits_for_a_body() or b"expect" in headers:
        return
    left = MOST_DROPPED - int(headers.get(b"content-length", b"0"))
    with suppress(TimeoutError):
        async with asyncio.timeout(DROP_S):
            while left >= 0:
                message = await receive()
                if not message.get("more_body", False):
                    return
                if b"content-length" not in headers:
                    left -= len(message["body"])


class ServiceRequest(Struct, eq=False):
    """A request, as a route's handler is given it."""

    app: Application
    route: Route
    scope: Any
    _receive: Receive
    path: dict[str, str]
    """The parameters of the path."""
    headers: dict[bytes, bytes]
    namespace: str = ""
    credential: Credential | None = None
    """The request's token, where tokens are required."""
    query_model: Any = None
    """The query, as the route's query model."""
    payload: Any = None
    """The JSON body, as the route's body model."""

    # ── clients and topics ───────────────────────────────────────────────────────────────────────────────────

    @property
    def client(self) -> AsyncClient:
        """The client of the request's namespace."""
        return self.app.clients[self.namespace]

    async def perform(self, operation: Operation[R]) -> R:
        """Performs what a verb returned; for a repeated request its scripts run as replays."""
        return await perform(replaying(self.client) if self.is_repeated else self.client, operation)

    @property
    def is_repeated(self) -> bool:
        """Whether it may have been carried out before."""
        return idempotency.REPEATED in self.headers

    @property
    def topic(self) -> AsyncTopic[Body]:
        """The topic that the path names."""
        found = self.app.clients.topic(self.namespace, self.path["topic"])
        return replaying(found) if idempotency.REPEATED in self.headers else found

    def topic_named(self, topic: str) -> AsyncTopic[Body]:
        """A topic by its name."""
        return self.app.clients.topic(self.namespace, topic)

    # ── query and body ─────────────────────────────────────────────────────────────────────────────────────────────────

    def query(self) -> dict[str, str]:
        """The query. Raises ``BadInput``, also for a name that is given twice."""
        text: bytes = self.scope["query_string"]
        if not text:
            return {}
        try:
            pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError as fault:
            raise BadInput(f"query: it cannot be read: {fault}.") from None
        found = dict(pairs)
        if len(found) != len(pairs):
            raise BadInput("query: a name is given twice.")
        return found

    def media(self) -> str:
        """The body's media type, without its parameters."""
        media = self.headers.get(b"content-type", b"")
        return JSON_TYPE if media == b"application/json" else media.decode("latin-1").partition(";")[0].strip().lower()

    def check_charset(self) -> None:
        """Raises ``BadInput`` if the body is text that is said to be in another charset than UTF-8."""
        media = self.headers.get(b"content-type", b"")
        if b"=" in media and not media.endswith((b"charset=utf-8", b"charset=UTF-8")):
            charset = media_header(media).get_content_charset() or ""
            if charset not in UTF_8:
                raise BadInput(f"content-type: its charset is {charset[:40]!r}; send UTF-8, and leave the charset out.")

    async def read(self, limit: int | None = None) -> bytes:
        """Reads the body, of at most ``limit`` bytes where the service takes more. Raises ``WrongCoding``, ``TooLarge``;
        ``Draining`` if it has not arrived by then; ``NoToken`` if the token was revoked meanwhile; ``ClientGone`` if the client
        disconnects, or the error that the connection has answered, such as ``TooSlow``."""
        if b"content-encoding" in self.headers and any(
            value.strip().lower() not in PLAIN for name, value in self.scope["headers"] if name == b"content-encoding"
        ):
            raise WrongCoding
        most = self.app.settings.max_request_body
        if limit is not None and limit < most:
            most = limit
        if b"content-length" in self.headers:
            length = self.headers[b"content-length"]
            if length.isdigit() and int(length) > most:
                raise TooLarge(f"The body has {int(length)} bytes; this service takes {most}.")
        parts, size, has_waited = list[bytes](), 0, False
        while True:
            message = self._poll_message()
            if message is None:
                message, has_waited = await self._next_message(), True
            if message["type"] == "http.disconnect":
                raise connection_of(self.scope).refusal or ClientGone
            part = message["body"] if "body" in message else b""  # noqa: SIM401  # get is a call
            size += len(part)
            if size > most:
                raise TooLarge(f"The body has more than {most} bytes; this service takes no more.")
            if "more_body" not in message or not message["more_body"]:
                break
            parts.append(part)
        if has_waited and self.route.scopes:
            await self.app.authorizer.check_again(self.credential)
        return b"".join((*parts, part)) if parts else part

    # ── whether the client is still connected ────────────────────────────────────────────────────────────────────────────

    async def pop_or_give_back(
        self, work: Coroutine[Any, Any, list[AsyncJob[Body]]], *, waits: bool
    ) -> list[AsyncJob[Body]]:
        """Performs a pop. Jobs that nobody may have any more are released as if they had not been handed out."""
        jobs = await (self.run_while_wanted(work) if waits else work)
        return await self.keep_or_give_back(jobs, lambda: self.give_back(jobs))

    async def keep_or_give_back(self, taken: R, give_back: Callable[[], Awaitable[Any]]) -> R:
        """Returns the jobs or elements that were taken for the client. If it has disconnected, or its token was revoked, calls ``give_back``
        instead, and raises ``ClientGone`` or ``NoToken``."""
        if not taken:
            return taken
        reason = ClientGone() if self.has_disconnected() else self.app.authorizer.refusal_of(self.credential)
        if reason is not None:
            await give_back()
            raise reason
        return taken

    async def give_back(self, jobs: Sequence[AsyncJob[Body]]) -> None:
        """Puts jobs back with their due times; the attempts do not count."""
        topic = self.topic_named(jobs[0].topic)
        await perform(topic, server_verbs(topic).give_back(jobs, [moment_us(job.due) for job in jobs]))

    async def run_while_wanted(self, work: Coroutine[Any, Any, R]) -> R:
        """Awaits work that may take long. Cancels it when the client disconnects, the service drains or the token is revoked: raises
        ``ClientGone``, ``Draining`` or ``NoToken``. Whatever is held is held here."""
        task = asyncio.ensure_future(work)
        disconnect = asyncio.ensure_future(self._wait_for_disconnect())
        refused = asyncio.Event()
        refusal = asyncio.ensure_future(refused.wait())
        connection = connection_of(self.scope)
        connection.hold(True)
        with self.app.cancelled_on_drain(task), self.app.authorizer.telling_refusal(self.credential, refused.set):
            try:
                await asyncio.wait({task, disconnect, refusal}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                connection.hold(False)
                gone = disconnect.done()
                disconnect.cancel()
                refusal.cancel()
                if not task.done():
                    task.cancel()
                    await asyncio.wait({task})
        if not task.cancelled():
            return task.result()
        raise ClientGone if gone else self.app.authorizer.refusal_of(self.credential) or Draining

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def has_disconnected(self) -> bool:
        """Whether the client is known to have disconnected."""
        message = self._poll_message()
        return message is not None and message["type"] == "http.disconnect"

    def _poll_message(self) -> Message | None:
        """The next message of the HTTP server, if it has arrived; does not wait."""
        receiving: Any = self._receive()
        try:
            receiving.send(None)
        except StopIteration as end:
            found: Message = end.value
            return found
        receiving.close()
        return None

    async def _next_message(self) -> Message:
        """Waits for the next message of the HTTP server. Raises ``Draining``."""
        task: Any = asyncio.current_task()
        with self.app.cancelled_on_drain(task):
            try:
                return await self._receive()
            except asyncio.CancelledError:
                if not self.app.draining:
                    raise
                task.uncancel()
                raise Draining from None
