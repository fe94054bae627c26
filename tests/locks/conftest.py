"""Locks as both clients have them; ``lock_users`` is sync or async."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import servers
import tarry
from faults.proxy import Proxy
from locks.holder_process import HOLDER, HolderProcess
from locks.lock_users import LockUsers
from warm import WarmTarry
from zookeepers import ZooKeeper


def redis_client(url: str) -> Callable[..., Any]:
    def make(client_kind: str, at: str | None = None, **options: Any) -> Any:
        return (tarry.Client if client_kind == "sync" else tarry.AsyncClient)(at or url, **options)

    return make


@pytest.fixture(params=["sync", "async"])
def lock_users(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[LockUsers]:
    """Those who lock on Redis."""
    made = LockUsers(request.param, redis_client(valkey_url))
    yield made
    made.close()


@pytest.fixture
def proxy(valkey_url: str) -> Iterator[Proxy]:
    """A line to the Redis of the locks that breaks."""
    with servers.short_folder() as folder:
        proxy = Proxy(folder, valkey_url.removeprefix("unix://"))
        yield proxy
        proxy.close()


def zookeeper_client(hosts: str) -> Callable[..., Any]:
    def make(client_kind: str, at: str | None = None, **options: Any) -> Any:
        from tarry import zookeeper

        kind = zookeeper.Client if client_kind == "sync" else zookeeper.AsyncClient
        return kind(at or hosts, **{"namespace": "tests", "session_timeout": 4, **options})

    return make


@pytest.fixture(params=["sync on redis", "async on redis", "sync on zookeeper", "async on zookeeper"])
def any_lock_users(request: pytest.FixtureRequest) -> Iterator[LockUsers]:
    """Those who lock, wherever locks are kept."""
    client_kind, _, place = str(request.param).partition(" on ")
    if place == "redis":
        made = LockUsers(client_kind, redis_client(request.getfixturevalue("valkey_url")))
    else:
        made = LockUsers(client_kind, zookeeper_client(request.getfixturevalue("zookeeper").hosts))
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def zookeeper_users(request: pytest.FixtureRequest, zookeeper: Any) -> Iterator[LockUsers]:
    """Those who lock on ZooKeeper."""
    made = LockUsers(request.param, zookeeper_client(zookeeper.hosts))
    yield made
    made.close()


@pytest.fixture
def start_holder(tarry_command: WarmTarry) -> Iterator[Callable[..., HolderProcess]]:
    with ExitStack() as stack:
        yield lambda *words: HolderProcess(*stack.enter_context(tarry_command.talk_to(HOLDER, *words)))


@pytest.fixture
def kazoo(zookeeper: ZooKeeper) -> Iterator[Any]:
    """An operator, or another library."""
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper.hosts)
    client.start()
    yield client
    client.stop()
    client.close()
