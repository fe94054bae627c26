"""One service for all tests that need no other; each test has a namespace and an imaginary clock of its own in it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from service.any_client import AnyClient
from service.dialect_clients import Speaks, dialects_of
from service.running_service import Api, RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.clients.testing import Clock, TestAsyncClient
from tarry.programs.service.settings import ServiceSettings


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


@pytest.fixture
def dialect_service(valkey_url: str, clock: Clock, namespace: str) -> Iterator[RunningService]:
    """A service that speaks them, by an imaginary clock."""
    settings, mounts = ServiceSettings(namespaces=(namespace,)), dialects_of(namespace).mounts(namespace)
    with serve(lambda name: TestAsyncClient(valkey_url, clock, namespace=name), settings, mounts) as running:
        yield running


@pytest.fixture
def send(dialect_service: RunningService) -> Iterator[Speaks]:
    with httpx.Client(base_url=dialect_service.url, timeout=20) as http:
        yield http.request
