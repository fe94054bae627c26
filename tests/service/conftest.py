"""One service for all tests that need no other; each test has a namespace and an imaginary clock of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.any_client import AnyClient
from service.running_service import Api, RunningService
from tarry.clients.awaited.client import AsyncClient
from tarry.clients.testing import Clock, TestAsyncClient


@pytest.fixture
def api(running_service: RunningService, valkey_url: str, namespace: str, clock: Clock) -> Iterator[Api]:
    """A namespace by an imaginary clock."""
    running_service.call(
        running_service.app.clients.put, namespace, TestAsyncClient(valkey_url, clock, namespace=namespace)
    )
    made = Api(running_service.url, namespace)
    yield made
    made.http.close()
    running_service.run(running_service.app.clients.drop(namespace))


@pytest.fixture
def real(running_service: RunningService, valkey_url: str, namespace: str) -> Iterator[Api]:
    """A namespace by the server's own time."""
    running_service.call(running_service.app.clients.put, namespace, AsyncClient(valkey_url, namespace=namespace))
    made = Api(running_service.url, namespace)
    yield made
    made.http.close()
    running_service.run(running_service.app.clients.drop(namespace))


@pytest.fixture(params=["http", "async http"])
def any_client(request: pytest.FixtureRequest, running_service: RunningService, valkey_url: str) -> Iterator[AnyClient]:
    made = AnyClient(request.param, running_service, valkey_url)
    yield made
    made.close()
