"""A guarded queue as both clients have it, under every guard."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from locks.conftest import redis_client, zookeeper_client
from locks.party import Party

_numbers = itertools.count()
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


@pytest.fixture
def name() -> str:
    return f"guarded-{next(_numbers)}"


@pytest.fixture
def raw(valkey_url: str) -> Iterator[Any]:
    with redis.Redis.from_url(valkey_url) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def party(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[Party]:
    made = Party(request.param, redis_client(valkey_url))
    yield made
    made.close()


@pytest.fixture(params=GUARDS)
def guard_of(request: pytest.FixtureRequest, party: Party) -> Iterator[Callable[..., Any]]:
    """Makes the guard of a queue, for a client."""
    kept: list[Party] = []
    if request.param == "zookeeper":
        kept.append(Party(party.face, zookeeper_client(request.getfixturevalue("zookeeper").hosts)))

    def make(client: Any, name: str) -> Any:
        if request.param == "redis":
            return client.lock("guard of " + name)
        if request.param == "zookeeper":
            return kept[0].client().lock("guard of " + name)
        if request.param == "everyone":
            return Everyone() if party.face == "sync" else EveryoneAwaited()
        return None

    yield make
    for one in kept:
        one.close()


@pytest.fixture(params=["tarry", "article"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)
