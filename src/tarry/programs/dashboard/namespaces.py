"""The dashboards of several namespaces: one for each, with links between them.

    /            the first namespace
    /ns/NAME/    each other one, with the same paths below

A token is of one namespace, so a browser signs in to each separately, and sees the names of those only that it may look at.
Without tokens it sees all names. Queues, maps and locks that are shared with Java have no namespace; the first dashboard has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Scope

from tarry.errors import TarryError
from tarry.programs.dashboard.access import COOKIE, cookies_of
from tarry.programs.dashboard.page_request import BASE_KEY, NamespaceLink, base_of

if TYPE_CHECKING:
    from tarry.programs.dashboard.dashboard_app import Dashboard

NAMESPACE_PREFIX = "/ns/"
ASK_AGAIN_S, ANSWER_TIMEOUT_S = 5.0, 0.5


class NamespaceDashboards:
    """The dashboards by namespace. ``names`` returns the namespaces, ``make_dashboard`` makes the dashboard of one. A namespace of
    ``optional`` is in the menu once something was added in it."""

    def __init__(
        self,
        names: Callable[[], Sequence[str]],
        make_dashboard: Callable[[str], Dashboard],
        optional: Collection[str] = (),
    ) -> None:
        self._unused = dict.fromkeys(optional, 0.0)
        self._names = names
        self._make = make_dashboard
        self._dashboards: dict[str, Dashboard] = {}

    def of(self, name: str) -> Dashboard:
        """The dashboard of a namespace, made when it is first needed."""
        found = self._dashboards.get(name)
        if found is None:
            found = self._dashboards[name] = self._make(name)
            found.namespaces = self
            if name != self._names()[0]:
                found.access.cookie = f"{COOKIE}-{sha256(name.encode()).hexdigest()[:16]}"
                found.leave_out_java()
        return found

    @property
    def opened(self) -> list[Dashboard]:
        return list(self._dashboards.values())

    def route(self, scope: Scope) -> tuple[ASGIApp, Scope] | None:
        """The application that answers a request, and its scope; ``None`` if no page has the path."""
        if scope["type"] != "http":
            return None
        place = self._place(scope)
        if place is None:
            return None
        found, scope = place
        return place if isinstance(found, RedirectResponse) or found.has(scope) else None

    def route_unknown(self, scope: Scope) -> tuple[ASGIApp, Scope]:
        """The dashboard that shows its error page for a path that does not exist, and its scope."""
        return self._place(scope) or (self.of(self._names()[0]), scope)

    def _place(self, scope: Scope) -> tuple[Dashboard, Scope] | tuple[RedirectResponse, Scope] | None:
        """The dashboard of the namespace in the path, and the scope below it; ``None`` if there is no such namespace."""
        root = str(scope.get("root_path", ""))
        path = str(scope["path"]).removeprefix(root)
        name, slash, _ = path.removeprefix(NAMESPACE_PREFIX).partition("/")
        if not path.startswith(NAMESPACE_PREFIX):
            return self.of(self._names()[0]), scope
        if name not in self._names():
            return None
        if not slash:
            return RedirectResponse(_path_below(root, name) + "/", 308), scope
        return self.of(name), {**scope, "root_path": root + NAMESPACE_PREFIX + name, BASE_KEY: root}

    async def visible_to(self, dashboard: Dashboard, request: Request) -> tuple[list[NamespaceLink], str]:
        """Links to the namespaces that a visitor may look at, and the path to sign in to others, if there are any."""
        base = base_of(request)
        names = [name for name in self._names() if self.of(name) is dashboard or await self._is_used(name)]
        seen = [
            NamespaceLink(name, self._path_of(base, name), self.of(name) is dashboard)
            for name in names
            if await self.of(name).access.role(request.scope, cookies_of(request)) is not None
        ]
        return seen, base + "/sign-in" if len(seen) < len(names) else ""

    async def _is_used(self, name: str) -> bool:
        """Whether a namespace has, or had, topics. One that is not used is asked again after a while."""
        now = asyncio.get_running_loop().time()
        if name not in self._unused or now < self._unused[name]:
            return name not in self._unused
        self._unused[name] = now + ASK_AGAIN_S
        with suppress(TarryError, TimeoutError):  # the page itself says so
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                if await self.of(name).client.topics():
                    self._unused.pop(name, None)
                    return True
        return False

    async def opened_by(self, token: str, request: Request) -> tuple[Dashboard, str] | None:
        """The dashboard that a token gives access to, and its path."""
        for name in self._names():
            if await self.of(name).access.role_of_token(token) is not None:
                return self.of(name), self._path_of(base_of(request), name)
        return None

    def _path_of(self, base: str, name: str) -> str:
        return base if name == self._names()[0] else _path_below(base, name)


def _path_below(root: str, name: str) -> str:
    return root + NAMESPACE_PREFIX + quote(name, safe="")
