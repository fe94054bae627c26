"""Topics with partitions: on one server and on a Cluster, blocking and awaited, by an imaginary clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

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


@pytest.fixture
def two(own_server: Callable[..., ServerProcess], clock: Clock) -> Iterator[tuple[TestClient, TestClient]]:
    """Clients of two servers."""
    with ExitStack() as stack:
        yield tuple(stack.enter_context(TestClient(own_server().url, clock)) for _ in range(2))  # type: ignore[misc]


@pytest.fixture(params=[None, 3], ids=["plain", "parted"])
def targets(request: pytest.FixtureRequest) -> int | None:
    return request.param
