"""Signing in: a token becomes a cookie that no script reads and no other site sends."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tarry.programs.dashboard.access import COOKIE_LIFETIME_S, LONGEST_TOKEN, same_origin
from tarry.programs.dashboard.namespaces import base_of
from tarry.programs.dashboard.visit import sent

if TYPE_CHECKING:
    from tarry.programs.dashboard.app import Dashboard

LONGEST_FORM = 4 * LONGEST_TOKEN


async def sign_in(dashboard: Dashboard, request: Request) -> Response:
    """The page that asks, and what it sends."""
    root = dashboard.root(request)
    if not dashboard.access.asks_for_tokens:
        return RedirectResponse(root + "/", 303)
    if request.method == "GET":
        return _page(dashboard, root, "", 200)
    if not same_origin(request.headers):
        return dashboard.error_page(request, 403, "Another site sent this", "Sign in from the dashboard only.")
    raw = await sent(request, LONGEST_FORM)
    token = parse_qs(raw.decode("utf-8", "replace")).get("token", [""])[0].strip()
    opened = await _dashboard_for(dashboard, request, token) if token.isascii() else None
    if opened is None:
        return _page(dashboard, root, "This token is not known, or may not look here.", 403)
    found, place = opened
    response = RedirectResponse(place + "/", 303)
    response.set_cookie(
        found.access.cookie,
        token,
        max_age=COOKIE_LIFETIME_S,
        path=base_of(request) or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


async def sign_out(dashboard: Dashboard, request: Request) -> Response:
    """Forgets the token."""
    if not same_origin(request.headers):
        return dashboard.error_page(request, 403, "Another site sent this", "Sign out from the dashboard only.")
    root = dashboard.root(request)
    response = RedirectResponse(root + "/sign-in", 303)
    response.delete_cookie(dashboard.access.cookie, path=base_of(request) or "/", httponly=True, samesite="strict")
    return response


async def _dashboard_for(dashboard: Dashboard, request: Request, token: str) -> tuple[Dashboard, str] | None:
    """The dashboard that a token opens, and where it is: this one, or that of the token's namespace."""
    if await dashboard.access.of_token(token) is not None:
        return dashboard, dashboard.root(request)
    return None if dashboard.namespaces is None else await dashboard.namespaces.opened_by(token, request)


def _page(dashboard: Dashboard, root: str, wrong: str, status: int) -> Response:
    text = dashboard.templates.get_template("sign_in.html").render(**dashboard.known(None, root), wrong=wrong)
    return Response(text, status, media_type="text/html")
