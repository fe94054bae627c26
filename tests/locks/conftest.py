"""Locks as both clients have them; ``party`` is sync or async."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import tarry
from locks.party import Party

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A lock that no other test has."""
    return f"lock-{next(_numbers)}"


@pytest.fixture
def raw(valkey_url: str) -> Iterator[Any]:
    """The server itself."""
    with redis.Redis.from_url(valkey_url) as client:
        yield client


def redis_client(url: str) -> Callable[..., Any]:
    def make(face: str, at: str | None = None, **options: Any) -> Any:
        return (tarry.Client if face == "sync" else tarry.AsyncClient)(at or url, **options)

    return make


@pytest.fixture(params=["sync", "async"])
def party(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[Party]:
    """Those who lock on Redis."""
    made = Party(request.param, redis_client(valkey_url))
    yield made
    made.close()


@pytest.fixture(params=["sync", "async"])
def keepers(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[Party]:
    """Those who lock, wherever locks are kept."""
    made = Party(request.param, redis_client(valkey_url))
    yield made
    made.close()
