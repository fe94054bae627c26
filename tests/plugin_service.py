"""One service for all tests that need no other; a test puts its own namespaces and clients into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from service.running_service import RunningService


@pytest.fixture(scope="session")
def running_service(valkey_url: str) -> Iterator[RunningService]:
    """Without a dashboard and dialects, by the server's own time, where nothing else is said."""
    from service.running_service import serve
    from tarry.clients.awaited.client import AsyncClient

    with serve(lambda namespace: AsyncClient(valkey_url, namespace=namespace)) as running:
        yield running
