"""Topics with partitions: on one server and on a Cluster, blocking and awaited, by an imaginary clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import servers
from faults.conftest import kind, make_client
from story import adapters
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess

pytest.register_assert_rewrite("distributed.waiters")
__all__ = ["kind", "make_client"]

SERVERS = ["valkey", pytest.param("cluster", marks=pytest.mark.otherserver)]
PARTS = 5


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    return either(request)


def either(request: pytest.FixtureRequest) -> str:
    if request.param == "valkey":
        return str(request.getfixturevalue("valkey_url"))
    nodes = request.getfixturevalue("cluster_nodes")
    return "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in nodes)


@pytest.fixture(params=["sync", "async"])
def adapter(request: pytest.FixtureRequest, url: str, clock: Clock, namespace: str) -> Iterator[Any]:
    made = adapters.imaginary(request.param, url, clock, namespace)
    yield made
    adapters.end(made)


@pytest.fixture
def topic(adapter: Any) -> Any:
    return adapter.topic("orders", partitions=PARTS)


@pytest.fixture(scope="module")
def three_servers() -> Iterator[list[ServerProcess]]:
    """They know the scripts from the first test on."""
    with ExitStack() as stack:
        yield [stack.enter_context(servers.server(servers.valkey_binary())) for _ in range(3)]


@pytest.fixture
def three(three_servers: list[ServerProcess], clock: Clock) -> Iterator[tuple[TestClient, ...]]:
    """Clients of three servers, which are empty."""
    with ExitStack() as stack:
        for server in three_servers:
            server.ask("FLUSHALL")
        yield tuple(stack.enter_context(TestClient(server.url, clock)) for server in three_servers)


@pytest.fixture
def two(three: tuple[TestClient, ...]) -> tuple[TestClient, ...]:
    """Clients of two servers, which are empty."""
    return three[:2]


@pytest.fixture(params=[None, 3], ids=["plain", "parted"])
def targets(request: pytest.FixtureRequest) -> int | None:
    return request.param
