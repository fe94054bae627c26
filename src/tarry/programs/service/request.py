"""One request while it is answered: what it says, whom it may ask, and whether its client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import parse_qsl

from tarry.clients.awaited.topic import AsyncTopic
from tarry.errors import BadInput
from tarry.programs.service import replays
from tarry.programs.service.problems import Draining, TooLarge, TooSlow, WrongCoding
from tarry.values.durations import moment_us

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.engine import Engine
    from tarry.clients.awaited.job import AsyncJob
    from tarry.clients.http.wire.bodies import Body
    from tarry.programs.service.app import ServiceApp
    from tarry.programs.service.authorization import Credential
    from tarry.programs.service.router import Route

BODY_TIMEOUT_S = 60.0
"""In this time a body must come."""
PIECE_S = 30.0
"""In this time its next piece must come."""
PLAIN = (b"", b"identity")
"""Content codings that change nothing."""
R = TypeVar("R")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):  # nobody is told: there is nobody
    """The client has gone; what was done for it was given back."""


class ServiceRequest:
    """What a handler is given."""

    __slots__ = (
        "_receive",
        "app",
        "credential",
        "headers",
        "namespace",
        "path",
        "payload",
        "query_model",
        "route",
        "scope",
    )

    query_model: Any
    """The query, as the row's model."""
    payload: Any
    """The JSON body, as the row's model."""
    credential: Credential | None
    """The token that was shown, where tokens are asked for."""

    def __init__(
        self,
        app: ServiceApp,
        route: Route,
        scope: Any,
        receive: Receive,
        path_values: Sequence[str],
        headers: dict[bytes, bytes],
    ) -> None:
        self.app = app
        self.route = route
        self.scope = scope
        self._receive = receive
        self.headers = headers
        self.path: dict[str, str] = dict(zip(route.path_names, path_values, strict=True)) if path_values else {}
        self.namespace = ""
        self.credential = self.query_model = self.payload = None

    # ── what is there to work with ───────────────────────────────────────────────────────────────────────────────────

    @property
    def client(self) -> AsyncClient:
        """The client of the request's namespace."""
        return self.app.clients[self.namespace]

    @property
    def engine(self) -> Any:
        """What performs verbs about its namespace; it tells scripts of a request that was sent before."""
        engine = self.client.engine
        return replays.ReplayEngine(engine) if replays.HEADER in self.headers else engine

    @property
    def topic(self) -> AsyncTopic[Body]:
        """The topic that the path names."""
        found = self.app.clients.topic(self.namespace, self.path["topic"])
        if replays.HEADER in self.headers:
            return AsyncTopic(cast("Engine", replays.ReplayEngine(found.engine)), found.verbs)
        return found

    def topic_named(self, topic: str) -> AsyncTopic[Body]:
        """A topic by its name."""
        return self.app.clients.topic(self.namespace, topic)

    # ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────────

    def query(self) -> dict[str, str]:
        """The query; ``BadInput`` for a name that is given twice."""
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
        return self.headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()

    async def read(self) -> bytes:
        """The body. Raises ``WrongCoding``, ``TooLarge``, ``TooSlow``, ``Draining`` where it is not there yet, ``ClientGone`` when
        the client goes before it has said all."""
        if b"content-encoding" in self.headers and any(
            value.strip().lower() not in PLAIN for name, value in self.scope["headers"] if name == b"content-encoding"
        ):
            raise WrongCoding
        most = self.app.settings.max_request
        length = self.headers.get(b"content-length")
        if length is not None and length.isdigit() and int(length) > most:
            raise TooLarge(f"The body has {int(length)} bytes; this service takes {most}.")
        parts, size, until = list[bytes](), 0, 0.0
        while True:
            message = self._received_already()
            if message is None:
                until = until or asyncio.get_running_loop().time() + BODY_TIMEOUT_S
                message = await self._receive_next(until)
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise TooLarge(f"The body has more than {most} bytes, which is all that this service takes.")
            if not message.get("more_body", False):
                return b"".join((*parts, part)) if parts else bytes(part)
            parts.append(part)

    # ── whether the client is still there ────────────────────────────────────────────────────────────────────────────

    async def pop_or_return(
        self, work: Coroutine[Any, Any, list[AsyncJob[Body]]], *, waits: bool
    ) -> list[AsyncJob[Body]]:
        """Performs a pop. A client that has gone gets nothing: the jobs go back as if they had not been handed out."""
        jobs = await (self.long_running(work) if waits else work)
        if jobs:
            await self.return_if_gone(lambda: self.give_back(jobs))
        return jobs

    async def return_if_gone(self, give_back: Callable[[], Awaitable[Any]]) -> None:
        """After something was taken: a client that has gone gets nothing, and it is given back."""
        if self.is_disconnected():
            await give_back()
            raise ClientGone

    async def give_back(self, jobs: Sequence[AsyncJob[Body]]) -> None:
        """Back with them, to where they were, the attempts not counted."""
        topic = self.topic_named(jobs[0].topic)
        await topic.engine.run(topic.verbs.give_back(jobs, [moment_us(job.due) for job in jobs]))

    async def long_running(self, work: Coroutine[Any, Any, R]) -> R:
        """Performs something long, as long as the client is there and the service does not drain. Else it is cancelled."""
        task = asyncio.ensure_future(work)
        going = asyncio.ensure_future(self._wait_for_disconnect())
        with self.app.cancelled_on_drain(task):
            try:
                await asyncio.wait({task, going}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone = going.done()
                going.cancel()
                if not task.done():
                    task.cancel()
                    await asyncio.wait({task})
        if not task.cancelled():
            return task.result()
        raise ClientGone if gone else Draining

    async def _wait_for_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def is_disconnected(self) -> bool:
        """Whether the client is known to have gone."""
        heard = self._received_already()
        return heard is not None and heard["type"] == "http.disconnect"

    def _received_already(self) -> Message | None:
        """One look at what the server has heard, without waiting for more."""
        receiving: Any = self._receive()
        try:
            receiving.send(None)
        except StopIteration as heard:
            found: Message = heard.value
            return found
        receiving.close()
        return None

    async def _receive_next(self, until: float) -> Message:
        """What the server hears next, if that is soon, and while the service does not drain."""
        task: Any = asyncio.current_task()
        with self.app.cancelled_on_drain(task):
            try:
                async with asyncio.timeout_at(min(until, asyncio.get_running_loop().time() + PIECE_S)):
                    return await self._receive()
            except TimeoutError:
                raise TooSlow from None
            except asyncio.CancelledError:
                if not self.app.draining:
                    raise
                task.uncancel()
                raise Draining from None
