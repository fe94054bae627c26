"""A service with the dialect, and boto3 unchanged but for its endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.config import Config

from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.mounts import Mount
from tarry.programs.sqs.routes import routes_of


def mounts() -> tuple[Mount, ...]:
    return (Mount((routes_of(),)),)


@pytest.fixture
def running_service(valkey_url: str, namespace: str) -> Iterator[RunningService]:
    settings = ServiceSettings(namespaces=(namespace,))
    with serve(lambda name: AsyncClient(valkey_url, namespace=name), settings, mounts()) as running:
        yield running


def boto(url: str, key: str = "anybody", secret: str = "anything") -> Any:
    import boto3  # each process of a run imports what stands above

    return boto3.client(
        "sqs",
        region_name="eu-central-1",
        endpoint_url=f"{url}/sqs",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 2}, connect_timeout=5, read_timeout=40),
    )


@pytest.fixture
def sqs(running_service: RunningService) -> Iterator[Any]:
    client = boto(running_service.url)
    yield client
    client.close()


@pytest.fixture
def queue(sqs: Any) -> str:
    """The URL of a queue."""
    url: str = sqs.create_queue(QueueName="orders")["QueueUrl"]
    return url


@pytest.fixture
def topic(running_service: RunningService, namespace: str) -> Callable[[str], Any]:
    """A topic of the service's own client, to look beneath the protocol."""
    return lambda name: running_service.app.clients.topic(namespace, name)
