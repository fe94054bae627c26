"""The clients of a worker: an awaited one for its event loop and a blocking one for its threads.

A worker is given a URL or a client. A given client stays the caller's: the worker copies its settings, adds tasks with it,
and leaves it open. The handlers' jobs use clients of the worker's own, which are closed when the run ends.
"""

from __future__ import annotations

from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.blocking.client import Client
from tarry.values import names


class WorkerClients:
    """One awaited and one blocking client of the same server and namespace; each is made when it is first needed."""

    def __init__(
        self, server: str | Client | AsyncClient | None, namespace: str | None, settings: dict[str, Any] | None = None
    ) -> None:
        """``settings``: further ones, for the clients of a URL."""
        if namespace is not None:
            names.check_namespace(namespace)
        self.given = server
        self._settings: dict[str, Any] = {**(settings or {}), "namespace": namespace}
        self._awaited = server if isinstance(server, AsyncClient) else None
        self._blocking = server if isinstance(server, Client) else None

    @property
    def awaited(self) -> AsyncClient:
        if self._awaited is None:
            given = self._blocking
            self._awaited = AsyncClient(self._url, **self._settings) if given is None else make_awaited(given)
        return self._awaited

    @property
    def blocking(self) -> Client:
        if self._blocking is None:
            given = self._awaited
            self._blocking = Client(self._url, **self._settings) if given is None else make_blocking(given)
        return self._blocking

    def for_run(self) -> tuple[AsyncClient, Client]:
        """Two new clients, for one run."""
        client = self._blocking or self.awaited
        return make_awaited(client), make_blocking(client)

    def for_server(self, url: str | None, namespace: str | None) -> WorkerClients:
        """Clients of another URL or namespace, with the same other settings; ``None`` keeps the present one."""
        client = self.blocking if self._awaited is None else self._awaited
        config = client.engine.config
        return WorkerClients(url or config.address.full_url, namespace or client.namespace, config.settings())

    async def close(self, *, given: bool) -> None:
        """Disconnects the clients that were made here; their next verb, also of a handle or a topic that they have made, reconnects
        them. With ``given`` it closes the one that the worker was given, too.

        An awaited client that belongs to another event loop is left open.
        """
        awaited, blocking = self._awaited, self._blocking
        if awaited is not None and awaited.engine.runner.is_own:
            if awaited is not self.given:
                await awaited.engine.disconnect()
            elif given:
                await awaited.close()
        if blocking is not None and blocking is not self.given:
            blocking.engine.disconnect()
        elif blocking is not None and given:
            blocking.close()

    @property
    def _url(self) -> str | None:
        return self.given if isinstance(self.given, str) else None


def make_awaited(client: AsyncClient | Client) -> AsyncClient:
    """A new awaited client of the same server and namespace, with the same test clock if there is one."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return AsyncClient(client.engine.config.address.full_url, **client.engine.config.settings())
    from tarry.clients.testing import TestAsyncClient

    return TestAsyncClient(client.engine.config.address.full_url or "", clock, **client.engine.config.settings())


def make_blocking(client: AsyncClient | Client, **other: Any) -> Client:
    """A new blocking client of the same server and namespace, with the same test clock if there is one."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return Client(client.engine.config.address.full_url, **{**client.engine.config.settings(), **other})
    from tarry.clients.testing import TestClient

    return TestClient(
        client.engine.config.address.full_url or "", clock, **{**client.engine.config.settings(), **other}
    )
