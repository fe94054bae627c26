"""The clients of a worker: whatever it was given, it has an awaited one for its loop and blocking ones for its threads."""

from __future__ import annotations

from typing import Any

from tarry.clients.aio.client import AsyncClient
from tarry.clients.sync.client import Client
from tarry.links.address import Address


def awaited(client: Client) -> AsyncClient:
    """An awaited client of the same server and namespace; by the same clock, if that is imaginary."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return AsyncClient(_url(client._origin.address), namespace=client.namespace)
    from tarry.clients.testing import TestAsyncClient

    return TestAsyncClient(_url(client._origin.address) or "", clock, namespace=client.namespace)


def blocking(client: AsyncClient | Client, **options: Any) -> Client:
    """A blocking client of the same server and namespace, with connections of its own."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return Client(_url(client._origin.address), namespace=client.namespace, **options)
    from tarry.clients.testing import TestClient

    return TestClient(_url(client._origin.address) or "", clock, namespace=client.namespace, **options)


def _url(address: Address) -> str | None:
    if address.kind == "embedded":
        return None if address.by_default else f"embedded://{address.folder or ''}"
    return "redis+cluster://" + address.url.removeprefix("redis://") if address.kind == "cluster" else address.url
