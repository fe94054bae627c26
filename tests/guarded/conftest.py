"""A guarded queue as both clients have it, under every guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import tarry
from locks.conftest import proxy, redis_client, zookeeper_client
from locks.lock_users import LockUsers

__all__ = ["proxy"]

GUARDS = ("none", "redis", pytest.param("zookeeper", marks=pytest.mark.slow), "everyone")


class Everyone:
    """A guard that keeps nobody away."""

    token = 7

    def acquire(self, **_: Any) -> Everyone:
        return self

    def release(self) -> None:
        pass


class EveryoneAwaited(Everyone):
    async def acquire(self, **_: Any) -> EveryoneAwaited:
        return self

    async def release(self) -> None:
        pass


HTTP = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("sync over http", "async over http")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over HTTP there are no guards, and nothing to be seen of the inside."""
    left_out = [item for item in items if "over http" in item.name and not _over_http(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if _repeats(**getattr(item, "callspec", NO_PARAMS).params):
            item.add_marker(pytest.mark.long)


NO_PARAMS = SimpleNamespace(params={})


def _repeats(lock_users: str = "", guard_of: str | None = None, layout: str = "", **_: object) -> bool:
    """Whether it is left to ``make test-long``. The blocking clients are made from the awaited ones (tests/clients/test_made_modules.py), so
    they show every verb under one guard, and what is written by hand below them: threads and connections. ZooKeeper is one more lock: what
    a layout does with a lock is the same with Redis's; and a service does what its own client without a guard does in both layouts."""
    if guard_of is None:
        return False
    if lock_users.startswith("sync"):
        return (guard_of, layout) != ("redis", "tarry")
    return layout == "java" and (guard_of in ("zookeeper", "everyone") or "over http" in lock_users)


def _over_http(item: Any) -> bool:
    return item.callspec.params.get("guard_of") == "none"


@pytest.fixture(params=["sync", "async", *HTTP])
def lock_users(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[LockUsers]:
    client_kind, _, over = request.param.partition(" over ")
    if over:
        url = request.getfixturevalue("running_service").url

        def make(client_kind: str, **options: Any) -> Any:
            return (tarry.HTTPClient if client_kind == "sync" else tarry.AsyncHTTPClient)(url, **options)

        made = LockUsers(client_kind, make)
    else:
        made = LockUsers(client_kind, redis_client(valkey_url))
    yield made
    made.close()


@pytest.fixture(params=GUARDS)
def guard_of(request: pytest.FixtureRequest, lock_users: LockUsers) -> Iterator[Callable[..., Any]]:
    """Makes the guard of a queue, for a client."""
    kept: list[LockUsers] = []
    if request.param == "zookeeper":
        kept.append(LockUsers(lock_users.client_kind, zookeeper_client(request.getfixturevalue("zookeeper").hosts)))

    def make(client: Any, name: str) -> Any:
        if request.param == "redis":
            return client.lock("guard of " + name)
        if request.param == "zookeeper":
            return kept[0].client().lock("guard of " + name)
        if request.param == "everyone":
            return Everyone() if lock_users.client_kind == "sync" else EveryoneAwaited()
        return None

    yield make
    for one in kept:
        one.close()


@pytest.fixture(params=["tarry", "java"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)
