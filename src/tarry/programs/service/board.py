"""The dashboard at ``/`` of a service: a part of the door, for paths that no row has.

no tokens asked for    whoever reaches the service may act; on loopback only by a name of this machine
tokens                 a browser signs in with one of the first namespace: scope admin acts, view looks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.gate import Role
from tarry.programs.service.problems import NoToken

if TYPE_CHECKING:
    from tarry.programs.service.door import Door

LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Board:
    """Made when the service starts, so that it samples from then on."""

    def __init__(self, door: Door) -> None:
        self._gate = door.gate
        self._namespace = door.settings.namespaces[0]
        client, settings = door.clients[self._namespace], door.settings
        if settings.tokens:
            self.app = Dashboard(client, tokens=self._role)
        else:
            self.app = Dashboard(
                client, allow="admin", hosts=(*LOOPBACK, settings.host) if settings.on_loopback else None
            )

    def start(self) -> None:
        self.app.sampler.start()

    def stop(self) -> None:
        """Streams end, nothing is sampled any more."""
        self.app.closing.set()
        self.app.sampler.halt()

    async def _role(self, token: str) -> Role | None:
        try:
            found = await self._gate.pass_of(token)
        except NoToken:
            return None
        scopes = found.token.record.scopes
        if found.namespace != self._namespace:
            return None
        return "admin" if "admin" in scopes else "viewer" if "view" in scopes else None
