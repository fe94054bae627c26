"""The dashboards of a service, on paths that no route has: the first namespace at ``/``, each other one at ``/ns/NAME/``.

no tokens needed    every visitor may act; only under an address, localhost, or a name that is allowed
tokens              a browser signs in with a token of the namespace: scope admin may act, scope view may look
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.namespaces import NamespaceDashboards
from tarry.programs.serving.problems import NoToken
from tarry.programs.serving.web_pages import LOOPBACK_NAME

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from tarry.programs.dashboard.access import Role
    from tarry.programs.serving.host import ServiceHost


class DashboardMount:
    """The dashboards by namespace, mounted in the service."""

    def __init__(self, app: ServiceHost) -> None:
        self._authorizer = app.authorizer
        self._app = app
        self._by_namespace = NamespaceDashboards(
            lambda: app.clients.namespaces,
            self._make,
            set(app.clients.namespaces) - set(app.settings.namespaces),
        )

    def start(self) -> None:
        for name in self._app.settings.namespaces:
            self._by_namespace.of(name).sampler.start()

    def stop(self) -> None:
        """Ends the streams and the sampling."""
        for one in self._by_namespace.opened:
            one.closing.set()
            one.sampler.stop_nowait()

    def route(self, scope: Scope) -> tuple[ASGIApp, Scope] | None:
        """The application that answers a request, and its scope; ``None`` if no page has the path."""
        return self._by_namespace.route(scope)

    def route_unknown(self, scope: Scope) -> tuple[ASGIApp, Scope]:
        """The dashboard that shows its error page for a path that does not exist, and its scope."""
        return self._by_namespace.route_unknown(scope)

    def require_tokens(self) -> None:
        """Requires tokens from now on; open streams end."""
        for one in self._by_namespace.opened:
            one.access.require_tokens(partial(self._role, one.client.namespace))

    def _make(self, namespace: str) -> Dashboard:
        client, settings = self._app.clients[namespace], self._app.settings
        if settings.tokens:
            made = Dashboard(client, tokens=partial(self._role, namespace))
        else:
            made = Dashboard(client, allow="admin", hosts=(LOOPBACK_NAME, *settings.allowed_hosts))
        made.access.authorizer = self._authorizer
        return made

    async def _role(self, namespace: str, token: str) -> Role | None:
        try:
            found = await self._authorizer.authenticate(token)
        except NoToken:
            return None
        scopes = found.token.record.scopes
        if found.namespace != namespace:
            return None
        return "admin" if "admin" in scopes else "viewer" if "view" in scopes else None
