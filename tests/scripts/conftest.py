"""A topic on the shared server, and the raw server: these tests may write what no client would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from tarry.clients.testing import Clock, TestClient


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(request: pytest.FixtureRequest, valkey_url: str, clock: Clock) -> Iterator[TestClient]:
    namespace = hashlib.sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()[:12]
    with TestClient(valkey_url, clock, namespace=namespace) as made:
        yield made


@pytest.fixture
def topic(client: TestClient) -> Any:
    return client.topic("t")


@pytest.fixture
def server(valkey_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(valkey_url) as raw:
        yield raw
