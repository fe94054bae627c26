"""A service that speaks the dialects, and what sends to it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from dialects.dialect_clients import Speaks, dialects_of
from service.running_service import RunningService, serve
from tarry.clients.testing import Clock, TestAsyncClient
from tarry.programs.service.settings import ServiceSettings
from until import LONGEST_S


@pytest.fixture
def dialect_service(valkey_url: str, clock: Clock, namespace: str) -> Iterator[RunningService]:
    """A service that speaks them, by an imaginary clock."""
    settings, mounts = ServiceSettings(namespaces=(namespace,)), dialects_of(namespace).mounts(namespace)
    with serve(
        lambda name: TestAsyncClient(valkey_url, clock, namespace=name, redisson="3.16.8"), settings, mounts
    ) as running:
        yield running


@pytest.fixture
def send(dialect_service: RunningService) -> Iterator[Speaks]:
    with httpx.Client(base_url=dialect_service.url, timeout=LONGEST_S) as http:
        yield http.request
