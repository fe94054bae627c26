"""What the tests of Celery share: one Redis for brokers, results and topics, one RabbitMQ, and a name for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import rabbitmqs
import servers
import tarry
from tarry.connections.embedded.server_process import ServerProcess


@pytest.fixture(scope="session")
def redis() -> Iterator[ServerProcess]:
    with servers.short_folder() as folder, servers.server(servers.redis7_binary(folder)) as running:
        yield running


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[rabbitmqs.RabbitMQ]:
    with rabbitmqs.server() as running:
        yield running


@pytest.fixture
def name() -> str:
    """The test's queue and namespace."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(redis: ServerProcess, name: str) -> Iterator[tarry.Topic[Any]]:
    """Where the tasks wait."""
    with tarry.Client(redis.url, namespace=name) as client:
        yield client.topic("celery")
