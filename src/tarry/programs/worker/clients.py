"""The clients of a worker: whatever it was given, it has an awaited one for its loop and blocking ones for its threads.

A client that it was given is the giver's: it says where the server is, tasks are added by it, and it stays open when the
worker stops. The handlers' jobs go by connections of the worker's own, which end with the run.
"""

from __future__ import annotations

from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.blocking.client import Client
from tarry.values import names


class WorkerClients:
    """One awaited and one blocking client of the same server and namespace; what was not given is made when it is needed."""

    def __init__(self, server: str | Client | AsyncClient | None, namespace: str) -> None:
        names.check_namespace(namespace)
        self.given = server
        self._namespace = namespace
        self._awaited = server if isinstance(server, AsyncClient) else None
        self._blocking = server if isinstance(server, Client) else None

    @property
    def awaited(self) -> AsyncClient:
        if self._awaited is None:
            given = self._blocking
            self._awaited = AsyncClient(self._url, namespace=self._namespace) if given is None else make_awaited(given)
        return self._awaited

    @property
    def blocking(self) -> Client:
        if self._blocking is None:
            given = self._awaited
            self._blocking = Client(self._url, namespace=self._namespace) if given is None else make_blocking(given)
        return self._blocking

    def for_run(self) -> tuple[AsyncClient, Client]:
        """Two more, for one run."""
        origin = self._blocking or self.awaited
        return make_awaited(origin), make_blocking(origin)

    def at(self, url: str | None, namespace: str | None) -> WorkerClients:
        """Others, of another URL or namespace; what is ``None`` stays."""
        origin = self.blocking if self._awaited is None else self._awaited
        return WorkerClients(url or origin.engine.origin.address.full_url, namespace or origin.namespace)

    async def close(self, *, given: bool) -> None:
        """Closes those that were made here; with ``given`` the one that was given as well.

        An awaited one that lives in another loop is left to that loop.
        """
        awaited = self._awaited
        if awaited is not None and (given or awaited is not self.given) and awaited.engine.runner.is_own:
            await awaited.close()
        if self._blocking is not None and (given or self._blocking is not self.given):
            self._blocking.close()

    @property
    def _url(self) -> str | None:
        return self.given if isinstance(self.given, str) else None


def make_awaited(client: AsyncClient | Client) -> AsyncClient:
    """Another awaited client of the same server and namespace; by the same clock, if that is imaginary."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return AsyncClient(client.engine.origin.address.full_url, **_settings(client))
    from tarry.clients.testing import TestAsyncClient

    return TestAsyncClient(client.engine.origin.address.full_url or "", clock, **_settings(client))


def make_blocking(client: AsyncClient | Client, **other: Any) -> Client:
    """The same that blocks."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return Client(client.engine.origin.address.full_url, **{**_settings(client), **other})
    from tarry.clients.testing import TestClient

    return TestClient(client.engine.origin.address.full_url or "", clock, **{**_settings(client), **other})


def _settings(client: AsyncClient | Client) -> dict[str, Any]:
    origin = client.engine.origin
    return {
        "namespace": origin.namespace,
        "max_body": origin._max_body,
        "patience": origin.patience.bound,
        "name_mapper": origin.name_mapper,
        "queue_format": origin.queue_format,
    }
