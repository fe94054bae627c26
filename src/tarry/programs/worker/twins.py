"""The clients of a worker: whatever it was given, it has an awaited one for its loop and blocking ones for its threads."""

from __future__ import annotations

from typing import Any

from tarry.clients.aio.client import AsyncClient
from tarry.clients.sync.client import Client


def awaited(client: Client) -> AsyncClient:
    """An awaited client of the same server and namespace; by the same clock, if that is imaginary."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return AsyncClient(url_of(client), namespace=client.namespace, max_body=client.engine.origin._max_body)
    from tarry.clients.testing import TestAsyncClient

    return TestAsyncClient(url_of(client) or "", clock, namespace=client.namespace)


def blocking(client: AsyncClient | Client, **options: Any) -> Client:
    """A blocking client of the same server and namespace, with connections of its own."""
    clock = getattr(client, "clock", None)
    if clock is None:
        return Client(url_of(client), namespace=client.namespace, max_body=client.engine.origin._max_body, **options)
    from tarry.clients.testing import TestClient

    return TestClient(url_of(client) or "", clock, namespace=client.namespace, **options)


def url_of(client: AsyncClient | Client) -> str | None:
    """The URL that another client needs; ``None`` where nobody gave one."""
    address = client.engine.origin.address
    if address.kind == "embedded":
        return None if address.by_default else f"embedded://{address.folder or ''}"
    return "redis+cluster://" + address.url.removeprefix("redis://") if address.kind == "cluster" else address.url
