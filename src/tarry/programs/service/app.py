"""The ASGI application: finds the route of a request, authorizes it, calls the handler, sends the response.

app = ServiceApp(ServiceSettings(), lambda namespace: tarry.AsyncClient(url, namespace=namespace), mounts)
uvicorn.run(app)                    # or mounted: Starlette(routes=[Mount("/tarry", app)])
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tarry import __version__
from tarry.errors import BadInput, Unavailable
from tarry.programs.service import openapi
from tarry.programs.service.cors import allowing_origins
from tarry.programs.service.metrics import Metrics
from tarry.programs.service.routes import routes_of
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import compression
from tarry.programs.serving.authorization import Authorizer
from tarry.programs.serving.connection_limits import FileShares, connection_of
from tarry.programs.serving.namespace_clients import NamespaceClients, OpenClient
from tarry.programs.serving.problems import (
    MEDIA,
    Draining,
    NoToken,
    UnknownRoute,
    UnservedRoute,
    WrongMethod,
    problem_of,
)
from tarry.programs.serving.request import ClientGone, Receive, Send, ServiceRequest, drop_body
from tarry.programs.serving.responses import NO_CONTENT, Headers, PlainResponse, Response, StreamResponse
from tarry.programs.serving.router import PathTree, Route
from tarry.wire.schemas import NOTHING

if TYPE_CHECKING:
    from tarry.programs.serving.mounts import Mount, Pages

JSON = b"application/json"
API_PREFIX = "/v1/"
"""No page for browsers has such a path."""
TOKEN_CHECK_TIMEOUT_S = 1.0
"""How long a page waits to learn whether a token exists now."""
logger = logging.getLogger("tarry")
CLIENT_GONE_STATUS = 499
"""The status in the metrics of a request whose client disconnected."""
_encode = msgspec.json.Encoder().encode


class ServiceApp:
    """The service as an ASGI application. ``open_client`` makes the client of a namespace; ``mounts`` add routes and pages."""

    def __init__(self, settings: ServiceSettings, open_client: OpenClient, mounts: Sequence[Mount] = ()) -> None:
        self.settings = settings
        self.mounts = tuple(mounts)
        self.routes = routes_of(mounts)
        namespaces = dict.fromkeys((*settings.namespaces, *(name for one in mounts for name in one.namespaces)))
        self.clients = NamespaceClients(tuple(namespaces), open_client, settings.max_job_body)
        self.moved_queues = tuple(dict.fromkeys((*settings.queues, *(name for one in mounts for name in one.queues))))
        """All queues that it moves, including those of what is mounted."""
        self.authorizer = Authorizer(settings, self.clients, self._first_token)
        self.metrics = Metrics()
        self.files = FileShares()
        self.draining = False
        self.version = __version__
        self.parts: dict[type, Any] = {}
        """Objects that routes share while the service runs; stopped with it."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        """Functions that ``close`` awaits before it closes the clients."""
        self.pages: Pages | None = None
        """The pages that are mounted, once ``show_pages`` was called."""
        self._routes = PathTree(self.routes)
        self._before_pages = {(route.method, route.path) for route in self.routes if route.path == "/"}
        """Routes at a path of a page; their methods are not the page's."""
        self._document: bytes | None = None
        self._held_requests: set[asyncio.Future[Any]] = set()

    @property
    def document(self) -> bytes:
        """The body of ``/openapi.json``."""
        if self._document is None:
            self._document = openapi.encoded(self.routes, self.settings.root_path)
        return self._document

    def require_tokens(self, required: bool, *, later: bool = False) -> None:
        """Sets whether requests need a token, now or ``later``, when the first is created. Call it before the first request."""
        self.settings = self.authorizer.settings = replace(self.settings, tokens=required, tokens_later=later)

    def _first_token(self) -> None:
        self.require_tokens(True)
        if self.pages is not None:
            self.pages.require_tokens()
        logger.warning("The first token was created: from now on every request needs a token.")

    def show_pages(self) -> None:
        """Serves the pages that are mounted, if any are. Call it in the event loop that serves, after ``require_tokens``."""
        for mount in self.mounts:
            if mount.open_pages is not None:
                pages: Pages = self.shared_part(mount.open_pages)
                pages.start()
                self.pages = pages

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def drain(self) -> None:
        """Answers 503 from now on, held requests included."""
        self.draining = True
        for work in list(self._held_requests):
            work.cancel()
        for part in self.parts.values():
            part.stop()

    async def close(self) -> None:
        """Ends the held requests, and closes the clients."""
        self.drain()
        while self.on_close:
            await self.on_close.pop()()
        await self.clients.close()
        self.metrics.close()

    @property
    def held_requests(self) -> int:
        """How many requests are held open: pops that wait, and streams."""
        return len(self._held_requests)

    @contextmanager
    def cancelled_on_drain(self, work: asyncio.Future[Any]) -> Generator[None]:
        """Cancels the work when the service drains."""
        if self.draining:
            work.cancel()
        self._held_requests.add(work)
        self.metrics.held.inc()
        try:
            yield
        finally:
            self.metrics.held.dec()
            self._held_requests.discard(work)

    def shared_part(self, kind: Any) -> Any:
        """The one object of a class, made when it is first needed; its ``stop()`` is called when the service drains."""
        if kind not in self.parts:
            self.parts[kind] = kind(self)
        return self.parts[kind]

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return None
        began = time.perf_counter()
        try:
            headers = headers_of(scope)
        except BadInput as fault:
            status = await self._send_problem(fault, None, send)
            return self.metrics.count_request("none", status, time.perf_counter() - began)
        if self.settings.root_path:
            scope = below_root(scope, self.settings.root_path)
        root: str = scope.get("root_path") or ""
        path: str = scope["path"].removeprefix(root) if root else scope["path"]
        if (
            self.pages is not None
            and not path.startswith(API_PREFIX)
            and (scope["method"], path) not in self._before_pages
        ):
            page = self.pages.route(scope)
            if page is not None:
                with suppress(Unavailable, TimeoutError):  # the page says so itself
                    async with asyncio.timeout(TOKEN_CHECK_TIMEOUT_S):
                        await self.authorizer.detect_first_token()
                show, inner = page
                await compression.compressed_page(show, path, scope, headers)(inner, receive, send)
                return None
        if self.settings.allowed_origins and b"origin" in headers:

            async def answer(scope: Any, receive: Receive, send: Send) -> None:
                await self._answer_route(scope, root, headers, receive, send, began)

            await allowing_origins(answer, self.settings.allowed_origins)(scope, receive, send)
            return None
        return await self._answer_route(scope, root, headers, receive, send, began)

    async def _answer_route(
        self, scope: Any, root: str, headers: dict[bytes, bytes], receive: Receive, send: Send, began: float
    ) -> None:
        name, status, route = "none", CLIENT_GONE_STATUS, None
        try:
            route, values = self._route_of(scope, root)
            name = route.name
            if self.draining and not route.while_draining:
                raise Draining
            named = dict(zip(route.path_names, values, strict=True)) if values else {}
            request = ServiceRequest(self, route, scope, receive, named, headers)
            if route.is_compressed and compression.accepts_gzip(scope, headers):
                status = await self._answer_compressed(request, receive, send)
            else:
                status = await self._handle(request, send)
        except ClientGone:
            pass
        except UnknownRoute as fault:
            if self.pages is None or isinstance(fault, UnservedRoute) or not _is_browser(scope, root, headers):
                await drop_body(scope, headers, receive)
                status = await self._send_problem(fault, None, send)
            else:
                status = fault.status
                show, inner = self.pages.route_unknown(scope)
                await show(inner, receive, send)
        except Exception as fault:  # noqa: BLE001  # the client gets a problem for any exception
            await drop_body(scope, headers, receive)
            status = await self._send_problem(fault, route, send)
        finally:
            self.metrics.count_request(name, status, time.perf_counter() - began)

    def _route_of(self, scope: Any, root: str) -> tuple[Route, Sequence[str]]:
        has_raw = "raw_path" in scope and scope["raw_path"] is not None
        raw: bytes = scope["raw_path"] if has_raw else quote(scope["path"]).encode()
        if root:
            raw = raw.removeprefix(root.encode())
        found_path = self._routes.find(raw)
        if found_path is None:
            raise self._unknown(raw.decode("latin-1"))
        routes, found = found_path
        method = scope["method"]
        if method in routes:
            return routes[method], found
        route = next((one for one in routes.values() if one.any_method), None) if method in ANY_METHOD else None
        if route is None:
            route = routes.get("GET")
            allowed = {*routes, "HEAD"} if route is not None and route.answers_head else {*routes}
            if any(one.any_method for one in routes.values()):
                allowed |= ANY_METHOD
            if route is None or method != "HEAD" or not route.answers_head:
                raise WrongMethod(allow=", ".join(sorted(allowed)))
        return route, found

    def _unknown(self, path: str) -> UnknownRoute:
        for mount in self.mounts:
            if mount.advise is not None and (advice := mount.advise(path)) is not None:
                return UnservedRoute(advice)
        plain = path.rstrip("/")
        if plain != path and plain and self._routes.find(plain.encode("latin-1")) is not None:
            return UnknownRoute(
                f"There is no such path; leave out the slash at its end: {self.settings.root_path}{plain}"
            )
        return UnknownRoute()

    async def _answer_compressed(self, request: ServiceRequest, receive: Receive, send: Send) -> int:
        status = CLIENT_GONE_STATUS

        async def handle(_scope: Any, _receive: Receive, send: Send) -> None:
            nonlocal status
            status = await self._handle(request, send)

        await compression.compressed(handle)(request.scope, receive, send)
        return status

    async def _handle(self, request: ServiceRequest, send: Send) -> int:
        route, scope = request.route, request.scope
        query = request.query() if scope["query_string"] else {}
        request.namespace, request.credential = await self.authorizer.authorize(route, scope, request.headers, query)
        if route.scopes:
            connection_of(scope).authorize(request.credential)
        if route.query_model is not None:
            request.query_model = (None if query else route.empty_query) or route.decode_query(query)
        elif query:
            raise BadInput(f"query: {next(iter(query))!r} is unknown here.")
        if route.body_model is not None and not route.reads_body:
            request.check_charset()
            request.payload = route.decode(await request.read() or b"{}")
            self.authorizer.count_jobs(request.credential, route.jobs(request.payload) if route.jobs is not None else 0)
        answer = await route.handler(request)
        status, headers = route.status, NO_HEADERS
        kind = type(answer)
        if kind is Response:
            status, headers, answer = answer.status or status, answer.headers, answer.answer
            kind = type(answer)
        if kind is NoneType and (route.returns is NOTHING or NO_CONTENT in route.other_statuses):
            await send({"type": "http.response.start", "status": NO_CONTENT, "headers": headers})
            await send({"type": "http.response.body"})
            return NO_CONTENT
        if kind is PlainResponse:
            await _send(send, status, answer.media, answer.body, headers)
        elif kind is StreamResponse:
            await self._stream(request, answer, status, headers, send)
        else:
            await _send(send, status, JSON, _encode(route.dump(answer)), headers)
        return status

    async def _stream(
        self, request: ServiceRequest, answer: StreamResponse, status: int, headers: Headers, send: Send
    ) -> None:
        async def pour() -> None:
            pairs = [(b"content-type", answer.media), (b"cache-control", b"no-store"), *headers]
            await send({"type": "http.response.start", "status": status, "headers": pairs})
            async for piece in answer.chunks:
                await send({"type": "http.response.body", "body": piece, "more_body": True})

        async with aclosing(answer.chunks):
            with suppress(Draining, NoToken):
                await request.run_while_wanted(pour())
        await send({"type": "http.response.body", "body": b""})

    async def _send_problem(self, fault: Exception, route: Route | None, send: Send) -> int:
        problem, headers = problem_of(fault)
        if self.draining:
            headers.append((b"connection", b"close"))
        if route is not None and route.problem_answer is not None:
            await _send(send, route.status, JSON, _encode(route.problem_answer(problem)), headers)
            return route.status
        await _send(send, problem.status, MEDIA, _encode(problem), headers)
        return problem.status

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


NO_HEADERS: Headers = ()
ANY_METHOD = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""The methods of a route with ``any_method``; not TRACE, which only echoes."""
SINGLE_HEADERS = frozenset(
    {
        b"host",
        b"authorization",
        b"origin",
        b"sec-fetch-site",
        b"content-type",
        b"idempotency-key",
        b"tarry-repeated",
        b"x-amz-target",
    }
)
"""Headers that decide something. Of two of the same name a proxy may have checked the other one."""


def below_root(scope: Any, root: str) -> Any:
    """The scope of a request to a service below a path: with that path before its own, whether or not a proxy took it away."""
    path: str = scope["path"]
    if not root or path.startswith(f"{root}/"):
        return {**scope, "root_path": root} if root else scope
    rest, raw = "/" if path == root else path, scope.get("raw_path")
    whole_raw = None if raw is None else root.encode() + (b"/" if path == root else raw)
    return {**scope, "root_path": root, "path": root + rest, "raw_path": whole_raw}


def _is_browser(scope: Any, root: str, headers: dict[bytes, bytes]) -> bool:
    """Whether a request is one of a browser for a page: not of the API, and by something that prefers HTML."""
    page = scope["method"] in ("GET", "HEAD") and not scope["path"].removeprefix(root).startswith(API_PREFIX)
    return page and b"text/html" in headers.get(b"accept", b"")


def headers_of(scope: Any) -> dict[bytes, bytes]:
    """The headers of a request. Raises ``BadInput`` for a single header that is given twice, and for no Host (RFC 9112, 3.2)."""
    pairs = scope["headers"]
    found: dict[bytes, bytes] = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        for name in SINGLE_HEADERS:
            if names.count(name) > 1:
                raise BadInput(f"request: {name.decode().title()} is given twice.")
    if b"host" not in found and scope.get("http_version") == "1.1":
        raise BadInput("request: it has no Host header, which HTTP/1.1 requires.")
    return found


async def _send(send: Send, status: int, media: bytes, body: bytes, headers: Headers) -> None:
    pairs = [(b"content-type", media), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
