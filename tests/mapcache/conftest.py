"""A map cache as both clients have it, in imaginary time, and the raw server beside it.

Maps are not in a namespace: Java knows none. Each test has a name of its own. In imaginary time nothing happens by itself:
the maps have no policy, and a test evicts.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis

from story.adapters import Awaited
from tarry.clients.testing import Clock, TestAsyncClient, TestClient


class SyncMaps:
    def __init__(self, client: TestClient) -> None:
        self.client = client

    def map(self, name: str, **options: Any) -> Any:
        return Awaited(self.client.map_cache(name, **{"codec": "string", "policy": None} | options))

    async def walk(self, iterator: Any) -> list[Any]:
        return list(iterator)

    def perform(self, story: Coroutine[Any, Any, Any]) -> None:
        try:
            story.send(None)
        except StopIteration:
            return
        raise AssertionError("a story on a blocking client has nothing to wait for")

    def close(self) -> None:
        self.client.close()


class AsyncMaps:
    def __init__(self, client: TestAsyncClient) -> None:
        self.client = client
        self._loop = asyncio.Runner()

    def map(self, name: str, **options: Any) -> Any:
        return self.client.map_cache(name, **{"codec": "string", "policy": None} | options)

    async def walk(self, iterator: Any) -> list[Any]:
        return [value async for value in (await iterator if inspect.isawaitable(iterator) else iterator)]

    def perform(self, story: Coroutine[Any, Any, Any]) -> None:
        self._loop.run(story)

    def close(self) -> None:
        self._loop.run(self.client.close())
        self._loop.close()


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
    story = pyfuncitem.obj
    if not inspect.iscoroutinefunction(story):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(story).parameters}
    if "maps" in pyfuncitem.funcargs:
        pyfuncitem.funcargs["maps"].perform(story(**given))
    else:
        asyncio.run(story(**given))
    return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


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
def name(request: pytest.FixtureRequest) -> str:
    return hashlib.sha1(request.node.nodeid.encode(), usedforsecurity=False).hexdigest()[:12]


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
            listener.get_message(timeout=5)

        def new_messages() -> list[tuple[str, bytes]]:
            server.publish(f"end:{name}", "end")
            found: list[tuple[str, bytes]] = []
            while True:
                message = listener.get_message(timeout=5)
                if message["data"] == b"end":
                    return found
                found.append((message["channel"].decode().split(":")[0].rpartition("_")[2], message["data"]))

        yield new_messages
