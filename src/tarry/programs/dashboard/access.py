"""Access control: roles, cross-site requests, the headers of every response.

    viewer   may look              admin   may look and act              no role   has to sign in, or is refused

A browser that has signed in has its token in a cookie that scripts cannot read and other sites cannot send. The token is
checked at each request, and a stream ends when it is revoked; a restart or another process changes nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from starlette.requests import Request

from tarry.internal import split_token
from tarry.programs.serving.web_pages import is_known_host, knows_tls

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Authorizer, Credential

Role = Literal["viewer", "admin"]
ROLES: dict[object, Role] = {"viewer": "viewer", "admin": "admin"}
Scope = MutableMapping[str, Any]
AllowFunction = Callable[[Scope], "Role | Awaitable[Role | None] | None"]
"""Returns the role of a request, from the ASGI scope with your application's own authentication."""
TokenFunction = Callable[[str], "Role | Awaitable[Role | None] | None"]
"""Returns the role of a token."""
WhoFunction = Callable[[Scope], str]
"""Returns the name of the user of a request, for the audit log."""

COOKIE = "tarry-dashboard"
COOKIE_LIFETIME_S = 12 * 3600
LONGEST_TOKEN = 512
ROLE_CHECK_S = 0.25
"""How often a function of an application is asked for the role of a token that has a stream."""
_ESCAPED = re.compile(r"\\(?:([0-3][0-7]{2})|(.))")
"""A character of a quoted cookie: its octal number, or itself."""
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types tarry",
    )
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class AccessControl:
    """Decides the role of each request."""

    def __init__(
        self,
        allow: Role | AllowFunction,
        tokens: TokenFunction | None,
        hosts: Collection[str] | None,
        who: WhoFunction | None = None,
    ) -> None:
        self._allow = allow
        self._tokens = tokens
        self._who = who
        self.cookie = COOKIE
        self._hosts = None if hosts is None else {host.lower() for host in hosts}
        self.authorizer: Authorizer | None = None
        """That of the service whose dashboard it is."""

    @property
    def tokens_required(self) -> bool:
        return self._tokens is not None

    def require_tokens(self, tokens: TokenFunction) -> None:
        """Requires tokens from now on, and accepts every host name."""
        self._tokens, self._hosts = tokens, None

    async def role(self, scope: Scope, cookies: Mapping[str, str]) -> Role | None:
        """The role of a request; ``None`` if it may not look."""
        if self._tokens is not None:
            return await self.role_of_token(cookies.get(self.cookie, ""))
        return await _awaited_role(self._allow(scope)) if callable(self._allow) else ROLES.get(self._allow)

    async def role_of_token(self, token: str) -> Role | None:
        if self._tokens is None or not token or len(token) > LONGEST_TOKEN:
            return None
        return await _awaited_role(self._tokens(token))

    def credential(self, cookies: Mapping[str, str]) -> Credential | None:
        """The credential of a request to a service, where tokens are required."""
        return None if self.authorizer is None else self.authorizer.known_credential(cookies.get(self.cookie, ""))

    @contextmanager
    def telling_refusal(self, cookies: Mapping[str, str], tell: Callable[[], object]) -> Generator[None]:
        """For as long as the block lasts: calls ``tell`` when the token of a request is refused, again and again."""
        if self.authorizer is not None:
            with self.authorizer.telling_refusal(self.credential(cookies), tell):
                yield
            return
        watch = asyncio.ensure_future(self._watch_token(cookies.get(self.cookie, ""), tell))
        try:
            yield
        finally:
            watch.cancel()

    async def _watch_token(self, token: str, tell: Callable[[], object]) -> None:
        while self._tokens is not None:
            await asyncio.sleep(ROLE_CHECK_S)
            with suppress(Exception):  # the next view tells it
                if await self.role_of_token(token) is None:
                    tell()

    def who(self, scope: Scope, cookies: Mapping[str, str]) -> str:
        """The sender of a request, as far as it is known: a name, the id of a token, or an address. Never a secret."""
        if self._who is not None:
            return str(self._who(scope))
        if self._tokens is not None:
            parts = split_token(cookies.get(self.cookie, ""))
            return f"token {parts.id}" if parts else "a token"
        client = scope.get("client")
        return f"somebody at {client[0]}" if client else "somebody"

    def is_known_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the Host header is allowed: a foreign name that resolves to here is an attack (DNS rebinding)."""
        if self._hosts is None:
            return True
        return is_known_host(headers.get("host", ""), self._hosts)


def same_origin(request: Request) -> bool:
    """Whether a page of the dashboard sent the form, by headers that browsers set and pages cannot forge."""
    headers = request.headers
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    scheme, _, host = headers.get("origin", "").partition("://")
    return scheme in (("https",) if _knows_tls(request) else ("http", "https")) and host == headers.get("host")


def arrived_by_tls(request: Request) -> bool:
    """Whether the browser speaks TLS, to this process or to a proxy before it.

    The proxy says so, or the browser, whose Origin is the page's own. Nobody else has to be believed: a client that says it falsely only
    keeps its own cookie from itself.
    """
    return _knows_tls(request) or request.headers.get("origin", "").startswith("https://")


def _knows_tls(request: Request) -> bool:
    return knows_tls(request.scope.get("scheme"), request.headers.get("x-forwarded-proto", ""))


def cookies_of(request: Request) -> dict[str, str]:
    """The cookies of a request, without those that are longer than a token can be.

    ``http.cookies`` takes quadratic time for backslashes on the Python versions that tarry supports (CVE-2024-7592).
    """
    found: dict[str, str] = {}
    for cookie in request.headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if len(value) > 4 * LONGEST_TOKEN + 2:
            continue
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = _ESCAPED.sub(lambda one: chr(int(one[1], 8)) if one[1] else one[2], value[1:-1])
        found[name] = value
    return found


async def _awaited_role(found: Role | Awaitable[Role | None] | None) -> Role | None:
    answer = await found if inspect.isawaitable(found) else found
    return ROLES.get(answer)
