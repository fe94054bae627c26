"""Who may look and who may act; what a cross-site request is; the headers of every answer.

    viewer   looks                 admin   looks and acts                 nobody   is asked for a token, or refused

A browser that has signed in carries its token in a cookie that no script reads and no other site sends; the token is
judged at each request, so a revoked one ends at once, and a restart or another process changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Literal
from urllib.parse import urlsplit

Role = Literal["viewer", "admin"]
ROLES: dict[object, Role] = {"viewer": "viewer", "admin": "admin"}
Scope = MutableMapping[str, Any]
AllowFunction = Callable[[Scope], "Role | Awaitable[Role | None] | None"]
"""Who is it that asks? Given the ASGI scope, as your application's own authentication left it."""
TokenFunction = Callable[[str], "Role | Awaitable[Role | None] | None"]
"""What may somebody do who has this token?"""

COOKIE = "tarry-dashboard"
COOKIE_LIFETIME_S = 12 * 3600
LONGEST_TOKEN = 512
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
    """Decides for each request."""

    def __init__(
        self, allow: Role | AllowFunction, tokens: TokenFunction | None, hosts: Collection[str] | None
    ) -> None:
        self._allow = allow
        self._tokens = tokens
        self.cookie = COOKIE
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    @property
    def asks_for_tokens(self) -> bool:
        return self._tokens is not None

    def require_tokens(self, tokens: TokenFunction) -> None:
        """From now on, by whatever name it was reached."""
        self._tokens, self._hosts = tokens, None

    async def role(self, scope: Scope, cookies: Mapping[str, str]) -> Role | None:
        """What this request may do."""
        if self._tokens is not None:
            return await self.of_token(cookies.get(self.cookie, ""))
        return await _awaited_role(self._allow(scope)) if callable(self._allow) else ROLES.get(self._allow)

    async def of_token(self, token: str) -> Role | None:
        if self._tokens is None or not token or len(token) > LONGEST_TOKEN:
            return None
        return await _awaited_role(self._tokens(token))

    def knows_host(self, headers: Mapping[str, str]) -> bool:
        """Whether the host is one of ours: another's name that leads here is an attack (DNS rebinding)."""
        if self._hosts is None:
            return True
        name = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        return name.lower() in self._hosts


def same_origin(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent by a page of ours: what a browser says of it, and no other program can be made to say."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc == headers.get("host")


async def _awaited_role(found: Role | Awaitable[Role | None] | None) -> Role | None:
    answer = await found if inspect.isawaitable(found) else found
    return ROLES.get(answer)
