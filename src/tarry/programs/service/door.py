"""The ASGI application: finds the row of a request, lets it in, answers.

service = Door(Settings(), lambda namespace: tarry.AsyncClient(url, namespace=namespace))
uvicorn.run(service)                    # or mounted: Starlette(routes=[Mount("/tarry", service)])
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from tarry import __version__
from tarry.errors import BadInput, Unavailable
from tarry.programs.service import openapi
from tarry.programs.service.clients import Clients, Open
from tarry.programs.service.exchange import Exchange, Gone, Receive, Send
from tarry.programs.service.gate import Gate
from tarry.programs.service.measures import Measures
from tarry.programs.service.problems import MEDIA, Draining, UnknownRoute, WrongMethod, problem_of
from tarry.programs.service.replies import Answered, Pairs, Plain, Stream
from tarry.programs.service.rows import rows_of
from tarry.programs.service.settings import Settings
from tarry.programs.service.table import Row, Way

if TYPE_CHECKING:
    from tarry.programs.service.board import Board

JSON = b"application/json"
NOTICE_S = 1.0
"""How long a page of the dashboard waits to learn whether there are tokens by now."""
logger = logging.getLogger("tarry")
GONE = 499
"""What counts as the status of an exchange whose client went away."""
_encode = msgspec.json.Encoder().encode


class Door:
    """The service as an ASGI application. ``opened`` makes the client of a namespace."""

    def __init__(self, settings: Settings, opened: Open) -> None:
        self.settings = settings
        self.rows = rows_of(settings)
        self.clients = Clients(settings.served, opened, settings.max_body)
        self.gate = Gate(settings, self.clients, self._first_token)
        self.measures = Measures()
        self.draining = False
        self.version = __version__
        self.parts: dict[type, Any] = {}
        """What rows keep for as long as the service lives; closed with it."""
        self.board: Board | None = None
        """The dashboard, from ``show_dashboard`` on."""
        self._way = Way(self.rows)
        self._held: set[asyncio.Future[Any]] = set()

    @cached_property
    def document(self) -> bytes:
        """What ``/openapi.json`` answers."""
        return openapi.encoded(self.rows)

    def ask_for_tokens(self, asked: bool, *, later: bool = False) -> None:
        """Whether a token must be shown, or ``later``, when there is one; said before the first request."""
        self.settings = self.gate.settings = replace(self.settings, tokens=asked, tokens_later=later)

    def _first_token(self) -> None:
        self.ask_for_tokens(True)
        if self.board is not None:
            self.board.ask_for_tokens()
        logger.warning("There is a token now: from here on the service asks for one.")

    def show_dashboard(self) -> None:
        """Answers its paths with the dashboard; said in the loop that serves, when it is known whether tokens are asked for."""
        from tarry.programs.service.board import Board

        board: Board = self.part(Board)
        board.start()
        self.board = board

    # ── life ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def drain(self) -> None:
        """From now on 503; those who wait are answered the same."""
        self.draining = True
        for work in list(self._held):
            work.cancel()
        for part in self.parts.values():
            part.stop()

    async def close(self) -> None:
        """Ends what is held, and closes the clients."""
        self.drain()
        await self.clients.close()

    @property
    def held(self) -> int:
        """How many requests are held: pops that wait, and streams."""
        return len(self._held)

    @contextmanager
    def holding(self, work: asyncio.Future[Any]) -> Generator[None]:
        """Work that ends when the service drains."""
        if self.draining:
            work.cancel()
        self._held.add(work)
        try:
            yield
        finally:
            self._held.discard(work)

    def part(self, kind: Any) -> Any:
        """The one part of a kind: made when it is first needed, stopped (``stop()``) when the service drains."""
        if kind not in self.parts:
            self.parts[kind] = kind(self)
        return self.parts[kind]

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return None
        began, name, status, row = time.perf_counter(), "none", GONE, None
        try:
            headers = headers_of(scope)
        except BadInput as fault:
            status = await self._refuse(fault, None, send)
            return self.measures.request(name, status, time.perf_counter() - began)
        if self.board is not None:
            with suppress(Unavailable, TimeoutError):  # the page says so itself
                async with asyncio.timeout(NOTICE_S):
                    await self.gate.notice_tokens()
        if self.board is not None and (page := self.board.spaces.find(scope)) is not None:
            show, inner = page
            return await show(inner, receive, send)
        try:
            row, found = self._find(scope)
            name = row.name
            if self.draining and not row.while_draining:
                raise Draining
            status = await self._exchange(Exchange(self, row, scope, receive, found, headers), send)
        except Gone:
            pass
        except Exception as fault:  # noqa: BLE001  # whatever it is, the client is told
            status = await self._refuse(fault, row, send)
        finally:
            self.measures.request(name, status, time.perf_counter() - began)

    def _find(self, scope: Any) -> tuple[Row, list[str]]:
        raw = scope.get("raw_path")
        path = raw.decode("latin-1") if raw is not None else scope["path"]
        if root := scope.get("root_path"):
            path = path.removeprefix(root)
        place = self._way.find(path)
        if place is None:
            raise UnknownRoute
        rows, found = place
        method = scope["method"]
        row = rows.get(method)
        if row is None and method in ANY_METHOD:
            row = next((one for one in rows.values() if one.any_method), None)
        if row is None:
            row = rows.get("GET")
            allowed = {*rows, "HEAD"} if row is not None and row.head else {*rows}
            if any(one.any_method for one in rows.values()):
                allowed |= ANY_METHOD
            if row is None or method != "HEAD" or not row.head:
                raise WrongMethod(allow=", ".join(sorted(allowed)))
        return row, found

    async def _exchange(self, x: Exchange, send: Send) -> int:
        row = x.row
        query = x.query()
        await self.gate.let_in(x, query)
        if row.asks is not None:
            x.asked = row.decode_query(query)
        elif query:
            raise BadInput(f"query: {next(iter(query))!r} is unknown here.")
        if row.takes is not None and not row.by_hand:
            x.said = row.decode(await x.read() or b"{}")
            self.gate.count(x, row.jobs(x.said) if row.jobs is not None else 0)
        answer = await row.handler(x)
        status, headers = row.status, NONE
        if type(answer) is Answered:
            status, headers, answer = answer.status or status, answer.headers, answer.answer
        if answer is None:
            await send({"type": "http.response.start", "status": 204, "headers": list(headers)})
            await send({"type": "http.response.body", "body": b""})
            return 204
        if isinstance(answer, msgspec.Struct):
            await _send(send, status, JSON, _encode(answer), headers)
        elif isinstance(answer, Plain):
            await _send(send, status, answer.media, answer.body, headers)
        else:
            await self._stream(x, answer, status, headers, send)
        return status

    async def _stream(self, x: Exchange, answer: Stream, status: int, headers: Pairs, send: Send) -> None:
        async def pour() -> None:
            pairs = [(b"content-type", answer.media), (b"cache-control", b"no-store"), *headers]
            await send({"type": "http.response.start", "status": status, "headers": pairs})
            async with aclosing(answer.pieces) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})

        with suppress(Draining):
            await x.held(pour())
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, fault: Exception, row: Row | None, send: Send) -> int:
        problem, headers = problem_of(fault)
        if self.draining:
            headers.append((b"connection", b"close"))
        if row is not None and row.refused is not None:
            await _send(send, row.status, JSON, _encode(row.refused(problem)), headers)
            return row.status
        await _send(send, problem.status, MEDIA, _encode(problem), headers)
        return problem.status

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


NONE: Pairs = ()
ANY_METHOD = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Those that a row of any method answers; not TRACE, which is never more than an echo."""
ONCE = frozenset(
    {b"host", b"authorization", b"origin", b"sec-fetch-site", b"content-type", b"idempotency-key", b"tarry-repeated"}
)
"""Fields that decide something. Of two of them others may have looked at the one that is not meant here."""


def headers_of(scope: Any) -> dict[bytes, bytes]:
    """The fields of a request's head. Raises ``BadInput`` for two of what there is one of, and for no host (RFC 9112, 3.2)."""
    pairs = scope["headers"]
    found: dict[bytes, bytes] = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        for name in ONCE:
            if names.count(name) > 1:
                raise BadInput(f"request: {name.decode().title()} is given twice.")
    if b"host" not in found and scope.get("http_version") == "1.1":
        raise BadInput("request: it has no Host, which HTTP/1.1 asks for.")
    return found


async def _send(send: Send, status: int, media: bytes, body: bytes, headers: Pairs) -> None:
    pairs = [(b"content-type", media), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
