"""Sign-in: stores a token in a cookie that scripts cannot read and other sites cannot send."""

from __future__ import annotations

import shlex
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tarry.programs.dashboard.access import COOKIE_LIFETIME_S, LONGEST_TOKEN, arrived_by_tls, same_origin
from tarry.programs.dashboard.forms import read_form
from tarry.programs.dashboard.page_request import PageHost, base_of

LONGEST_FORM = 4 * LONGEST_TOKEN


async def sign_in(dashboard: PageHost, request: Request) -> Response:
    """The sign-in page, and its form."""
    root = dashboard.root(request)
    if not dashboard.access.tokens_required:
        return RedirectResponse(root + "/", 303)
    if request.method == "GET":
        return _page(dashboard, root, "", 200)
    if not same_origin(request):
        return dashboard.error_page(
            request, 403, "This request came from another site", "Use the sign-in page of the dashboard itself."
        )
    raw = await read_form(request, LONGEST_FORM)
    token = parse_qs(raw.decode("utf-8", "replace")).get("token", [""])[0].strip()
    opened = await dashboard.opened_by(token, request) if token.isascii() else None
    if opened is None:
        return _page(dashboard, root, "This token is unknown, or has no access here.", 403)
    found, place = opened
    response = RedirectResponse(place + "/", 303)
    response.set_cookie(
        found.access.cookie,
        token,
        max_age=COOKIE_LIFETIME_S,
        path=base_of(request) or "/",
        secure=arrived_by_tls(request),
        httponly=True,
        samesite="strict",
    )
    return response


async def sign_out(dashboard: PageHost, request: Request) -> Response:
    """Deletes the cookie."""
    if not same_origin(request):
        return dashboard.error_page(
            request, 403, "This request came from another site", "Use the button of the dashboard itself."
        )
    root = dashboard.root(request)
    response = RedirectResponse(root + "/sign-in", 303)
    response.delete_cookie(dashboard.access.cookie, path=base_of(request) or "/", httponly=True, samesite="strict")
    return response


def token_command(namespace: str, server: str) -> str:
    """The command that creates a token for this dashboard, to be pasted as it is. An address with a password is left to TARRY_URL."""
    words = ["tarry", "token", "create", "--scope", "admin", "--namespace", namespace]
    return shlex.join(words if "@" in server else [*words, "--url", server])


def _page(dashboard: PageHost, root: str, wrong: str, status: int) -> Response:
    context = dashboard.template_context(None, root)
    command = token_command(context["namespace"], context["server_url"])
    text = dashboard.templates.get_template("sign_in.html").render(**context, wrong=wrong, command=command)
    return Response(text, status, media_type="text/html")
