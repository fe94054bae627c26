"""Several namespaces under one roof: a dashboard for each, and the way from one to another.

    /            the first namespace
    /ns/NAME/    each other one, with the same addresses below

A browser's token is of one namespace, so it signs in to each by itself, and is told the names of those only that it may look
at. Where no tokens are asked for, it is told all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Scope

from tarry.programs.dashboard.access import COOKIE

if TYPE_CHECKING:
    from tarry.programs.dashboard.app import Dashboard

NAMESPACE_PREFIX = "/ns/"
BASE_KEY = "tarry.base"
"""In a scope: the path at which the first namespace is."""


@dataclass(frozen=True, slots=True)
class NamespaceLink:
    """A namespace that a reader may go to, and the path at which its dashboard is."""

    name: str
    at: str
    here: bool


class NamespaceDashboards:
    """The dashboards of some namespaces. ``names`` are those there are now, ``made`` makes the dashboard of one."""

    def __init__(self, names: Callable[[], Sequence[str]], make: Callable[[str], Dashboard]) -> None:
        self._names = names
        self._make = make
        self._dashboards: dict[str, Dashboard] = {}

    def of(self, name: str) -> Dashboard:
        """The dashboard of a namespace, made when it is first asked for."""
        found = self._dashboards.get(name)
        if found is None:
            found = self._dashboards[name] = self._make(name)
            found.namespaces = self
            if name != self._names()[0]:
                found.access.cookie = f"{COOKIE}-{sha256(name.encode()).hexdigest()[:16]}"
        return found

    @property
    def opened(self) -> list[Dashboard]:
        return list(self._dashboards.values())

    def route(self, scope: Scope) -> tuple[ASGIApp, Scope] | None:
        """Who answers a request, and what it is to him; ``None`` where no page is."""
        if scope["type"] != "http":
            return None
        root = str(scope.get("root_path", ""))
        path = str(scope["path"]).removeprefix(root)
        name, slash, _ = path.removeprefix(NAMESPACE_PREFIX).partition("/")
        if not path.startswith(NAMESPACE_PREFIX):
            name = self._names()[0]
        elif name not in self._names():
            return None
        elif not slash:
            return RedirectResponse(_path_below(root, name) + "/", 308), scope
        else:
            scope = {**scope, "root_path": root + NAMESPACE_PREFIX + name, BASE_KEY: root}
        found = self.of(name)
        return (found, scope) if found.has(scope) else None

    async def visible_to(self, dashboard: Dashboard, request: Request) -> tuple[list[NamespaceLink], str]:
        """The namespaces that a reader may look at, and where to sign in to others, if there are."""
        base = base_of(request)
        seen = [
            NamespaceLink(name, self._path_of(base, name), self.of(name) is dashboard)
            for name in self._names()
            if await self.of(name).access.role(request.scope, request.cookies) is not None
        ]
        return seen, base + "/sign-in" if len(seen) < len(self._names()) else ""

    async def opened_by(self, token: str, request: Request) -> tuple[Dashboard, str] | None:
        """The dashboard that a token opens, and where it is."""
        for name in self._names():
            if await self.of(name).access.of_token(token) is not None:
                return self.of(name), self._path_of(base_of(request), name)
        return None

    def _path_of(self, base: str, name: str) -> str:
        return base if name == self._names()[0] else _path_below(base, name)


def base_of(request: Request) -> str:
    """The path that the cookies of all namespaces are for."""
    return quote(str(request.scope.get(BASE_KEY, request.scope.get("root_path", ""))).rstrip("/"))


def _path_below(root: str, name: str) -> str:
    return root + NAMESPACE_PREFIX + quote(name, safe="")
