"""One interface for all clients of tarry, so that a test is written once, as a coroutine, and runs on each of them.

    story             async def …(topic): await topic.add(…)        one text
    BlockingAdapter   a blocking client: its verbs answer at once, so the story never suspends
    AwaitedAdapter    an awaited client, on a loop of its own
    HTTP…             the same two as clients of a service, whose own client has the imaginary clock

An adapter gives topics, ``pop`` over several of them, ``inside(job)`` (what ``with job:`` is there) and ``perform(story)``.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient


class Awaited:
    """An object whose blocking methods may be awaited."""

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.plain, name)
        if not callable(found) or name == "verbs":
            return found

        async def awaited(*given: Any, **named: Any) -> Any:
            return found(*given, **named)

        return awaited


class OnBlockingClient:
    """Performs stories on a blocking client."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def walk(self, iterator: Any) -> list[Any]:
        return list(getattr(iterator, "plain", iterator))

    def perform(self, story: Coroutine[Any, Any, Any]) -> Any:
        try:
            story.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a story on a blocking client has nothing to wait for")

    def close(self) -> None:
        self.client.close()


class OnAwaitedClient:
    """Performs them on an awaited client, in a loop of its own."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._loop = asyncio.Runner()

    async def walk(self, iterator: Any) -> list[Any]:
        return [value async for value in (await iterator if inspect.isawaitable(iterator) else iterator)]

    def perform(self, story: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run(story)

    def close(self) -> None:
        self._loop.run(self.client.close())
        self._loop.close()


def perform_story(test: pytest.Function, fixture: str) -> bool | None:
    """A test that is a coroutine function is a story, which its fixture performs; a hook of pytest for a folder of them."""
    story = test.obj
    if not inspect.iscoroutinefunction(story):
        return None
    given = {name: test.funcargs[name] for name in inspect.signature(story).parameters}
    performer = test.funcargs.get(fixture)
    (asyncio.run if performer is None else performer.perform)(story(**given))
    return True


class BlockingAdapter(OnBlockingClient):
    def __init__(self, client: tarry.Client) -> None:
        super().__init__(client)
        self.topics_made: list[Any] = []

    def topic(self, name: str, **options: Any) -> Any:
        made = Awaited(self.client.topic(name, **options))
        self.topics_made.append(made)
        return made

    async def pop(self, *names: str, **options: Any) -> Any:
        return self.client.pop(*names, **options)

    async def pop_many(self, *names: str, **options: Any) -> Any:
        return self.client.pop_many(*names, **options)

    async def topics(self) -> list[str]:
        return self.client.topics()

    async def workers(self) -> list[tarry.types.WorkerInfo]:
        return self.client.workers()

    async def run(self, operation: Any) -> Any:
        return self.client.engine.run(operation)

    async def of(self, job: Any, verb: str, *given: Any, **named: Any) -> Any:
        """A verb of the job itself."""
        return getattr(job, verb)(*given, **named)

    @asynccontextmanager
    async def inside(self, job: Any) -> AsyncIterator[Any]:
        with job:
            yield job


class Seen:
    """A topic of a service, and what a story must see of its inside: the keys and the scripts, by a client of its own."""

    def __init__(self, outside: Any, inside: Any) -> None:
        self._outside = outside
        self._inside = inside

    @property
    def outside(self) -> Any:
        """The topic as the service's client knows it."""
        return self._outside

    @property
    def verbs(self) -> Any:
        self._inside.get_many(["-"])  # so that it knows its partitions, as one that was used does
        return self._inside.verbs

    def __getattr__(self, name: str) -> Any:
        self._outside.verbs.holder = self._inside.verbs.holder  # a story may say in whose name it takes
        return getattr(self._outside, name)


class AwaitedAdapter(OnAwaitedClient):
    def __init__(self, client: tarry.AsyncClient) -> None:
        super().__init__(client)
        self.topics_made: list[Any] = []

    def topic(self, name: str, **options: Any) -> Any:
        made = self.client.topic(name, **options)
        self.topics_made.append(made)
        return made

    async def pop(self, *names: str, **options: Any) -> Any:
        return await self.client.pop(*names, **options)

    async def pop_many(self, *names: str, **options: Any) -> Any:
        return await self.client.pop_many(*names, **options)

    async def topics(self) -> list[str]:
        return await self.client.topics()

    async def workers(self) -> list[tarry.types.WorkerInfo]:
        return await self.client.workers()

    async def run(self, operation: Any) -> Any:
        return await self.client.engine.run(operation)

    async def of(self, job: Any, verb: str, *given: Any, **named: Any) -> Any:
        """A verb of the job itself."""
        return await getattr(job, verb)(*given, **named)

    @asynccontextmanager
    async def inside(self, job: Any) -> AsyncIterator[Any]:
        async with job:
            yield job


class _OverHTTP:
    """A client of a service; ``inner`` looks at what lies on the server."""

    topics_made: list[Any]

    def __init__(self, client: Any, inside: tarry.Client) -> None:
        super().__init__(client)  # type: ignore[call-arg]
        self.inner = inside

    def topic(self, name: str, **options: Any) -> Any:
        made = Seen(super().topic(name, **options), self.inner.topic(name, **options))  # type: ignore[misc]
        self.topics_made[-1] = made
        return made

    async def run(self, operation: Any) -> Any:
        return self.inner.engine.run(operation)

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        self.inner.close()


class HTTPAdapter(_OverHTTP, BlockingAdapter): ...


class AwaitedHTTPAdapter(_OverHTTP, AwaitedAdapter): ...


Adapter = BlockingAdapter | AwaitedAdapter


def imaginary(kind: str, url: str, clock: Clock, namespace: str = "default", **options: Any) -> Adapter:
    """A client by an imaginary clock, on a server that was started for tests."""
    if kind == "sync":
        return BlockingAdapter(TestClient(url, clock, namespace=namespace, **options))
    return AwaitedAdapter(TestAsyncClient(url, clock, namespace=namespace, **options))


@contextmanager
def over_http(kind: str, running_service: Any, url: str, clock: Clock, namespace: str) -> Iterator[Adapter]:
    """A client that reaches the server through a service only; there the clock is imaginary."""
    running_service.call(running_service.app.clients.put, namespace, TestAsyncClient(url, clock, namespace=namespace))
    inside = TestClient(url, clock, namespace=namespace)
    try:
        if kind == "http":
            yield HTTPAdapter(tarry.HTTPClient(running_service.url, namespace=namespace), inside)
        else:
            yield AwaitedHTTPAdapter(tarry.AsyncHTTPClient(running_service.url, namespace=namespace), inside)
    finally:
        running_service.run(running_service.app.clients.drop(namespace))


def end(adapter: Adapter) -> None:
    """After every story: all is in its place in every topic that it touched."""
    try:
        for topic in adapter.topics_made:
            found = adapter.perform(topic.check())
            assert found.ok, found.faults
    finally:
        adapter.close()
