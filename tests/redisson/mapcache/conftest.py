"""A map cache as both clients have it, in imaginary time, and the raw server beside it.

Maps are not in a namespace: Java knows none. Each test has a name of its own. In imaginary time nothing happens by itself:
the maps have no policy, and a test evicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from story.adapters import Awaited, OnAwaitedClient, OnBlockingClient, perform_story
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from until import LONGEST_S


class SyncMaps(OnBlockingClient):
    def map(self, name: str, **options: Any) -> Any:
        return Awaited(self.client.map_cache(name, **{"codec": "string", "policy": None} | options))

    def as_dict(self, cache: Any) -> Any:
        return Awaited(cache.plain.as_dict())

    async def listed(self, cache: Any, what: str) -> list[Any]:
        """What ``keys``, ``values`` or ``items`` of the map as a dictionary has."""
        return list(getattr(cache.plain.as_dict(), what)())


class AsyncMaps(OnAwaitedClient):
    def map(self, name: str, **options: Any) -> Any:
        return self.client.map_cache(name, **{"codec": "string", "policy": None} | options)

    def as_dict(self, cache: Any) -> Any:
        return cache.as_dict()

    async def listed(self, cache: Any, what: str) -> list[Any]:
        return [one async for one in getattr(cache.as_dict(), what)()]


Maps = SyncMaps | AsyncMaps
NATIVE = pytest.mark.parametrize(
    "url", ["valkey_url", pytest.param("redis8_url", marks=pytest.mark.otherserver)], indirect=True
)
"""On each server whose fields of a hash expire."""
BACKENDS = pytest.mark.parametrize(
    ("backend", "url"),
    [
        ("redisson", "valkey_url"),
        ("native", "valkey_url"),
        pytest.param("native", "redis8_url", marks=pytest.mark.otherserver),
    ],
    indirect=["url"],
)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return perform_story(pyfuncitem, "maps")


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """The server of a test: the embedded one, or what the test names."""
    return str(request.getfixturevalue(getattr(request, "param", "valkey_url")))


@pytest.fixture(params=["sync", "async"])
def maps(request: pytest.FixtureRequest, url: str, clock: Clock) -> Iterator[Maps]:
    made: Maps
    made = SyncMaps(TestClient(url, clock)) if request.param == "sync" else AsyncMaps(TestAsyncClient(url, clock))
    yield made
    made.close()


@pytest.fixture
def cache(maps: Maps, name: str) -> Any:
    return maps.map(name)


@pytest.fixture
def server(url: str) -> Iterator[Any]:
    with redis.Redis.from_url(url) as raw:
        yield raw


@pytest.fixture
def published(server: Any, name: str) -> Iterator[Callable[[], list[tuple[str, bytes]]]]:
    """What the map's channels have told since the last look: the kind, and the message."""
    with server.pubsub() as listener:
        kinds = ("created", "updated", "removed", "expired")
        listener.subscribe(*[f"redisson_map_cache_{kind}:{{{name}}}" for kind in kinds], f"end:{name}")
        server.hset(f"{{{name}}}:redisson_options", "has-listeners", 1)
        for _ in range(5):
            listener.get_message(timeout=LONGEST_S)

        def new_messages() -> list[tuple[str, bytes]]:
            server.publish(f"end:{name}", "end")
            found: list[tuple[str, bytes]] = []
            while True:
                message = listener.get_message(timeout=LONGEST_S)
                if message["data"] == b"end":
                    return found
                found.append((message["channel"].decode().split(":")[0].rpartition("_")[2], message["data"]))

        yield new_messages
