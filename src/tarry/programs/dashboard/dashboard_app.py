"""The ASGI application: a section for each path, as a page or as a stream of updates, and the error pages."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from tarry import AsyncClient
from tarry.errors import BadInput, BodyError, ServerUnfit, TarryError, Unavailable
from tarry.internal import address_of
from tarry.programs.dashboard import action_handler, assets, filters, live_updates
from tarry.programs.dashboard.access import (
    HEADERS,
    AccessControl,
    AllowFunction,
    Role,
    TokenFunction,
    WhoFunction,
    cookies_of,
    same_origin,
)
from tarry.programs.dashboard.busiest_keys import BusiestKeys
from tarry.programs.dashboard.dead_scans import DeadScans
from tarry.programs.dashboard.guarded_stream import GuardedStream
from tarry.programs.dashboard.key_scanner import KeyScanner
from tarry.programs.dashboard.page_request import NamespaceLink, NotFound, PageHost, PageRequest
from tarry.programs.dashboard.sampler import Sampler
from tarry.programs.dashboard.sections import Download, Section, actions, downloads, sections
from tarry.programs.dashboard.sign_in import sign_in, sign_out
from tarry.programs.serving.connection_limits import connection_of

logger = logging.getLogger("tarry")
ANSWER_TIMEOUT_S = 3.0
"""How long a page waits for the server; then it shows that the server does not answer, and retries."""
MAY_NOT_ACT = "You can view this, but not change it"
MOST_NOTES = 1000
LONGEST_SHOWN_PATH = 200
FAILED_PAGE = "It will be tried again. The service's log has the error."
ERROR_TITLES = {
    404: "Page not found",
    405: "Method not allowed",
    408: "The form took too long to arrive",
    413: "The form is too long",
    415: "The form cannot be read",
}
STATUSES_WITH_DETAIL = (408, 413, 415)
"""``read_form`` gives these a detail for people."""
P = TypeVar("P")
UNREACHABLE_ERRORS = (Unavailable, ServerUnfit, TimeoutError)
REFUSALS = (NotFound, BadInput, BodyError, *UNREACHABLE_ERRORS)


class OtherNamespaces(Protocol):
    """The dashboards of all namespaces, as far as one of them knows them."""

    async def visible_to(self, dashboard: Dashboard, request: Request) -> tuple[list[NamespaceLink], str]: ...
    async def opened_by(self, token: str, request: Request) -> tuple[PageHost, str] | None: ...


class Dashboard:
    """The dashboard of one namespace as an ASGI application: run it, or mount it anywhere.

    ``allow`` is the role of every visitor, ``"viewer"`` (may look) or ``"admin"`` (may act), or a function from the ASGI scope
    to a role or ``None``. With ``tokens``, a function from a token to a role, each browser has to sign in instead. ``hosts``
    are the host names it answers to, besides addresses; ``None``: all, for an application that checks them itself. ``who``, a function from the ASGI
    scope to a name, says in the audit log who did what. It needs ``tarry[http]``.

        app.mount("/tarry", Dashboard(client, allow=lambda scope: "admin" if scope["user"].is_staff else None))
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        allow: Role | AllowFunction = "viewer",
        tokens: TokenFunction | None = None,
        hosts: Collection[str] | None = None,
        who: WhoFunction | None = None,
    ) -> None:
        self.client = client
        self.access = AccessControl(allow, tokens, hosts, who)
        self.sampler = Sampler(client)
        self.key_scanner = KeyScanner(client)
        self.sections = sections()
        self.actions = actions()
        self.view_cache = live_updates.ViewCache(ANSWER_TIMEOUT_S)
        self.closing = asyncio.Event()
        self.has_java = True
        """Whether it shows what is shared with Java."""
        self.namespaces: OtherNamespaces | None = None
        """The dashboards of all namespaces, if there are several."""
        self._notes: dict[str, str] = {}
        self._parts: dict[Any, Any] = {}
        self.version = assets.version()
        self.templates = assets.templates()
        self._router = Router(
            [
                *[
                    Route(part.path, self._guarded(partial(self._show_page, part)), methods=["GET"])
                    for part in self.sections
                ],
                *[
                    Route(file.path, self._guarded(partial(self._send_file, file)), methods=["GET"])
                    for file in downloads()
                ],
                Route(
                    "/act",
                    self._guarded(
                        partial(action_handler.handle_action, self, self.actions, self._forget_views), act=True
                    ),
                    methods=["POST"],
                ),
                Route("/sign-in", partial(sign_in, self), methods=["GET", "POST"]),
                Route("/sign-out", partial(sign_out, self), methods=["POST"]),
                Route("/assets/{name}", assets.send_asset, methods=["GET"]),
            ],
            default=_not_found,
        )

        self._paths = {route.path for route in self._router.routes if isinstance(route, Route)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            self.sampler.start()
            await self._answer(scope, receive, _with_headers(send))

    def has(self, scope: Scope) -> bool:
        """Whether the path of a request is one of the dashboard's."""
        if scope["type"] != "http":
            return False
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return path in self._paths or path.startswith("/assets/")

    async def __aenter__(self) -> Dashboard:
        self.sampler.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the streams and the sampling. The client stays open."""
        self.closing.set()
        await self.sampler.stop()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.sampler.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    # ── a request ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if not self.access.is_known_host(request.headers):
            response = self.error_page(
                request, 421, "This host name is not allowed", "Use the address of this service."
            )
        else:
            try:
                await self._router(scope, receive, send)
                return
            except ClientDisconnect:  # there is nobody to answer
                return
            except HTTPException as fault:
                what, why = ERROR_TITLES.get(fault.status_code, "No"), ""
                if fault.status_code in STATUSES_WITH_DETAIL:
                    why = fault.detail
                elif fault.status_code == 404:
                    why = f"Nothing is at {filters.plain(scope['path'])[:LONGEST_SHOWN_PATH]}. Check the address for a typo."
                response = self.error_page(request, fault.status_code, what, why)
                response.headers.update(fault.headers or {})
            except Exception as fault:
                logger.exception("The dashboard failed.")
                response = self.error_page(
                    request, 500, "The dashboard failed", f"{type(fault).__name__}. The service's log has the details."
                )
        await response(scope, receive, send)

    def _guarded(
        self, endpoint: Callable[[Request, PageRequest], Any], *, act: bool = False
    ) -> Callable[[Request], Any]:
        async def guarded(request: Request) -> Response | GuardedStream:
            if act and not same_origin(request):
                return self.error_page(
                    request, 403, "This request came from another site", "Use the buttons of the dashboard itself."
                )
            role = await self.access.role(request.scope, cookies_of(request))
            if role is None:
                if not self.access.tokens_required or live_updates.is_stream(request):
                    return self.error_page(
                        request, 403, "You have no access to this dashboard", "Ask the people who run it for access."
                    )
                return RedirectResponse(self.root(request) + "/sign-in", 303)
            connection_of(request.scope).authorize(self.access.credential(cookies_of(request)))
            if act and role != "admin":
                return self.error_page(
                    request, 403, MAY_NOT_ACT, "This needs a token of the scope admin, or the role admin."
                )
            visit = PageRequest(self, self.root(request), request.query_params, role)
            if self.namespaces is not None and not live_updates.is_stream(request):
                visit.namespace_links, visit.other_sign_in = await self.namespaces.visible_to(self, request)
            response: Response = await endpoint(request, visit)
            if isinstance(response, StreamingResponse):
                return GuardedStream(response, partial(self.access.telling_refusal, cookies_of(request)))
            return response

        return guarded

    async def _show_page(self, part: Section, request: Request, visit: PageRequest) -> Response:
        if part.admin and not visit.may_act:
            return self.error_page(
                request, 403, MAY_NOT_ACT, "This needs a token of the scope admin, or the role admin.", visit
            )
        if part.every_s and live_updates.is_stream(request):
            return live_updates.stream(self, self.view_cache, part, visit, request)
        try:
            data, _ = await asyncio.gather(self.view_cache.get_or_load(part, visit), self._scan_for_navigation())
            if isinstance(data.get("redirect"), str):
                return RedirectResponse(data["redirect"], 303)
            return self.page(visit, part.template, data, part)
        except REFUSALS as fault:
            return self._refusal(request, visit, fault, part)
        except Exception:
            logger.exception("The dashboard's page %s cannot be shown.", part.path)
            return self.error_page(request, 500, "This page could not be loaded", FAILED_PAGE, visit, part)

    async def _send_file(self, file: Download, request: Request, visit: PageRequest) -> Response:
        try:
            return await file.respond(visit)
        except REFUSALS as fault:
            return self._refusal(request, visit, fault)

    def _refusal(self, request: Request, visit: PageRequest, fault: Exception, part: Section | None = None) -> Response:
        if isinstance(fault, NotFound):
            return self.error_page(request, 404, "Not found", str(fault), visit)
        if isinstance(fault, (BadInput, BodyError)):
            return self.error_page(request, 400, "This query is not valid", str(fault), visit)
        why = self.unreachable_text(fault)
        return self.error_page(request, 503, "The server does not answer", why, visit, part)

    async def _scan_for_navigation(self) -> None:
        with suppress(TarryError, TimeoutError):  # the page itself says so
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self.key_scanner.scan_for_navigation()

    def _navigation(self, here: Section | None) -> list[Section]:
        """The sections with a title, without those of objects that were never found."""
        used = self.key_scanner.used
        return [
            part
            for part in self.sections
            if part.title and (not part.kinds or used.intersection(part.kinds) or part is here)
        ]

    def leave_out_java(self) -> None:
        """Shows nothing that is shared with Java: another dashboard does. Call it before the first request."""
        self.has_java, self.key_scanner = False, KeyScanner(self.client, java=False)

    def _forget_views(self) -> None:
        """After an action: nothing is shown as it was before."""
        self.view_cache.invalidate()
        self.shared_part(DeadScans).forget()
        self.shared_part(BusiestKeys).forget()

    async def opened_by(self, token: str, request: Request) -> tuple[PageHost, str] | None:
        """The dashboard that a token gives access to, and its path: this one, or that of the token's namespace."""
        if await self.access.role_of_token(token) is not None:
            return self, self.root(request)
        return None if self.namespaces is None else await self.namespaces.opened_by(token, request)

    # ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def root(self, request: Request) -> str:
        """The path that the dashboard is mounted at."""
        return quote(str(request.scope.get("root_path", "")).rstrip("/"))

    def template_context(self, visit: PageRequest | None, root: str, part: Section | None = None) -> dict[str, Any]:
        """The variables of every template."""
        address = address_of(self.client)
        return {
            "visit": visit,
            "root": root,
            "version": self.version,
            "navigation": self._navigation(part) if visit else [],
            "namespace": self.client.namespace,
            "server": address.redacted,
            "server_url": address.redacted if address.kind != "embedded" else address.full_url or "embedded://",
            "said": self._notes.get(visit.query.get("said", ""), "") if visit else "",
            "tokens_required": self.access.tokens_required,
            "here": part.path if part else "",
            "section": part.path if part and part.title else "/",
            "live": part.every_s if part else 0,
        }

    def page(self, visit: PageRequest, template: str, data: dict[str, Any], part: Section | None = None) -> Response:
        """A whole page."""
        text = self.templates.get_template(template).render(**self.template_context(visit, visit.root, part), **data)
        return Response(text, media_type="text/html", headers={"vary": "accept, cookie"})

    def view(self, visit: PageRequest, template: str, data: dict[str, Any]) -> str:
        """The part of a page that changes."""
        found = self.templates.get_template(template)
        context = found.new_context({**self.template_context(visit, visit.root), **data})
        return "".join(found.blocks["view"](context))

    def error_page(
        self,
        request: Request,
        status: int,
        what: str,
        why: str,
        visit: PageRequest | None = None,
        part: Section | None = None,
    ) -> Response:
        """An error page. With ``part`` it stays live, and shows that section when the server answers again."""
        root = self.root(request)
        text = self.templates.get_template("error.html").render(
            **self.template_context(visit, root, part), what=what, why=why, lost=part is not None, status=status
        )
        return Response(text, status, media_type="text/html")

    def shared_part(self, kind: Callable[[PageHost], P]) -> P:
        """The one object of a class that a section keeps between requests; made when it is first needed."""
        found: P = self._parts.setdefault(kind, kind(self)) if kind not in self._parts else self._parts[kind]
        return found

    def unreachable_text(self, fault: BaseException) -> str:
        """The error message for a server that does not answer."""
        if isinstance(fault, TarryError) and str(fault):
            return str(fault)
        return f"The server at {address_of(self.client).redacted} did not answer within {ANSWER_TIMEOUT_S:g} s."

    def add_note(self, text: str) -> str:
        """Stores a note for the next page; returns its random name for the URL."""
        while len(self._notes) >= MOST_NOTES:
            del self._notes[next(iter(self._notes))]
        name = secrets.token_urlsafe(9)
        self._notes[name] = text
        return name


def _with_headers(send: Send) -> Send:
    """Adds the security headers to every response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _not_found(*_: object) -> None:
    raise HTTPException(404)
