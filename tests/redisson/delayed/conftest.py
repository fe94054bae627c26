"""A shared queue as both clients have it, in imaginary time, and the raw server beside it.

Queues are not in a namespace: Java knows none. Each test has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tarry
from story.adapters import Awaited, OnAwaitedClient, OnBlockingClient, perform_story
from tarry.clients.testing import Clock, TestAsyncClient, TestClient


class SyncQueues(OnBlockingClient):
    def delayed(self, name: str, **options: Any) -> Any:
        return Awaited(self.client.delayed_queue(name, **options))

    def blocking(self, name: str, **options: Any) -> Any:
        return Awaited(self.client.blocking_queue(name, **options))


class AsyncQueues(OnAwaitedClient):
    def delayed(self, name: str, **options: Any) -> Any:
        return self.client.delayed_queue(name, **options)

    def blocking(self, name: str, **options: Any) -> Any:
        return self.client.blocking_queue(name, **options)


Queues = SyncQueues | AsyncQueues


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return perform_story(pyfuncitem, "queues")


INSIDE = (
    "test_a_transfer_is_bounded",
    "test_the_next_caller_after_a_missed_deadline_becomes_the_mover",
    "test_a_deputy_without_a_mover_becomes_the_mover",
)
"""These work with the scripts themselves; all others are told over HTTP, too."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.name.startswith(INSIDE) and "[http" in item.name.replace("async ", "")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if "[async http" in item.name and item.path.stem in OF_BYTES:
            item.add_marker(pytest.mark.long)


OF_BYTES = ("test_formats", "test_equality")
"""A service's own client reads and compares the bytes, as one without a service does: over HTTP they are for ``make test-long``."""
HTTP = [pytest.param("http", marks=pytest.mark.long), pytest.param("async http", marks=pytest.mark.slow)]
"""The blocking client is made from the awaited one; both call every verb in tests/conformance/test_programs.py."""


@pytest.fixture(params=["sync", "async", *HTTP])
def queues(request: pytest.FixtureRequest, valkey_url: str, clock: Clock) -> Iterator[Queues]:
    if "http" in request.param:
        running_service = request.getfixturevalue("running_service")
        with running_service.instead("default", TestAsyncClient(valkey_url, clock)):
            yield from _closed(_over_http(request.param, running_service.url))
    elif request.param == "sync":
        yield from _closed(SyncQueues(TestClient(valkey_url, clock)))
    else:
        yield from _closed(AsyncQueues(TestAsyncClient(valkey_url, clock)))


def _over_http(kind: str, url: str) -> Queues:
    return SyncQueues(tarry.HTTPClient(url)) if kind == "http" else AsyncQueues(tarry.AsyncHTTPClient(url))


def _closed(made: Queues) -> Iterator[Queues]:
    yield made
    made.close()


@pytest.fixture
def delayed(queues: Queues, name: str) -> Any:
    return queues.delayed(name, codec="string")


@pytest.fixture
def blocking(queues: Queues, name: str) -> Any:
    return queues.blocking(name, codec="string")


@pytest.fixture
def written(server: Any, name: str) -> Callable[[], dict[str, Any]]:
    """What lies under the queue's keys, by their names without it."""

    def read() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in server.keys(f"*{name}*"):
            kind = server.type(key)
            short = key.decode().replace(f"{{{name}}}", "").replace(name, "ready").removesuffix(":")
            if kind == b"list":
                found[short] = server.lrange(key, 0, -1)
            elif kind == b"zset":
                found[short] = server.zrange(key, 0, -1, withscores=True)
            else:
                found[short] = server.hgetall(key)
        return found

    return read
