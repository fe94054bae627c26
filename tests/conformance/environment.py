"""The environment of a story: a server, a client, names of its own, and a log of the verbs that the story has called.

    async def story(world):                       one text
        queue = world.client.blocking_queue(…)    a handle of either client, whose verbs are awaited, and noted
        assert await queue.take() == "tea"

The stories go by real time, and wait where the next thing is a moment away.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import tarry
from until import LONGEST_S

HANDLES = ("topic", "schedules", "lock", "guarded_queue", "delayed_queue", "blocking_queue", "map_cache")
"""What makes a handle is no verb of the server: it answers at once in both clients."""
Said = dict[str, set[str]]


class AnswerProxy:
    """A handle, or what a verb answered, whose own verbs are awaited. Every one that is used is noted."""

    def __init__(self, plain: Any, said: Said) -> None:
        self.plain = plain
        self._said = said

    def __getattr__(self, name: str) -> Any:
        self._said[type(self.plain).__name__.removeprefix("Async")].add(name)
        found = getattr(self.plain, name)
        if (isinstance(self.plain, CLIENTS) and name in HANDLES) or name == "as_dict":
            return self._handle(found)
        if isinstance(found, tarry.types.LockLostEvent | tarry.types.AsyncLockLostEvent):
            return AnswerProxy(found, self._said)
        if not callable(found):
            return found

        async def verb(*given: Any, **named: Any) -> Any:
            answer = found(*_plain(given), **{word: _bare(value) for word, value in named.items()})
            if inspect.isawaitable(answer):
                answer = await answer
            return AnswerProxy(answer, self._said) if isinstance(answer, OF_THEIR_OWN) else answer

        return verb

    def _handle(self, found: Any) -> Any:
        if not callable(found):
            return AnswerProxy(found, self._said)
        return lambda *given, **named: AnswerProxy(found(*_plain(given), **named), self._said)

    async def plain_run(self, operation: Any) -> Any:
        """What no verb of a client does."""
        answer = self.plain.engine.run(operation)
        return await answer if inspect.isawaitable(answer) else answer

    @asynccontextmanager
    async def inside(self) -> AsyncIterator[Any]:
        if hasattr(self.plain, "__aenter__"):
            async with self.plain as answer:
                yield AnswerProxy(answer, self._said)
        else:
            with self.plain as answer:
                yield AnswerProxy(answer, self._said)

    async def walk(self, verb: str = "") -> list[Any]:
        """What comes out of it one by one, or out of one of its verbs."""
        if verb:
            self._said[type(self.plain).__name__.removeprefix("Async")].add(verb)
        source = getattr(self.plain, verb)() if verb else self.plain
        return [one async for one in source] if hasattr(source, "__aiter__") else list(source)


CLIENTS = (tarry.Client, tarry.AsyncClient, tarry.HTTPClient, tarry.AsyncHTTPClient)
OF_THEIR_OWN = (
    tarry.Grant, tarry.AsyncGrant, tarry.redisson.Subscription, tarry.redisson.AsyncSubscription, tarry.redisson.MapListener, tarry.redisson.AsyncMapListener,
    tarry.types.Ends, tarry.types.AsyncEnds,
)  # fmt: skip


def _bare(value: Any) -> Any:
    return value.plain if isinstance(value, AnswerProxy) else value


def _plain(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_bare, given))


class Environment:
    """``name``: for what has no namespace, because Java knows none."""

    def __init__(self, client_kind: str, url: str, name: str, **options: Any) -> None:
        self.client_kind = client_kind
        self.url = url
        self.name = name
        self.said: Said = defaultdict(set)
        self._options = {"namespace": name, **options}
        self._opened: list[Any] = []
        self.is_http = False
        self.client = self.another()

    def through(self, client: Any) -> None:
        """From now on by another way: that of a service."""
        self._opened.append(client)
        self.client = AnswerProxy(client, self.said)
        self.is_http = True

    def another(self, url: str | None = None, **options: Any) -> Any:
        """One more client."""
        kind: Any = tarry.Client if self.client_kind == "sync" else tarry.AsyncClient
        made = kind(url or self.url, **{**self._options, **options})
        self._opened.append(made)
        return AnswerProxy(made, self.said)

    def function(self, plain: Any) -> Any:
        """A handler, or a loader, as the client wants it."""

        async def awaited(*given: Any) -> Any:
            return plain(*given)

        return plain if self.client_kind == "sync" else awaited

    def begin(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Future[Any]:
        """Something that waits: in a thread, which nobody waits for when the story fails, or in a task."""
        if self.client_kind == "async":
            return asyncio.ensure_future(work())
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(asyncio.run(work()))
            except BaseException as fault:  # noqa: BLE001  # the story is told
                done.set_exception(fault)

        threading.Thread(target=run, daemon=True).start()
        return asyncio.wrap_future(done)

    async def until(self, is_so: Any) -> None:
        """Waits for what happens a moment later: asks a verb again and again."""
        async with asyncio.timeout(LONGEST_S):
            while not await is_so():  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.01)

    async def run_story(self, story: Any) -> None:
        try:
            await story(self)
        finally:
            for client in reversed(self._opened):
                closed = client.close()
                if inspect.isawaitable(closed):
                    await closed

    # ── as the stories of topics have it (tests/story) ───────────────────────────────────────────────────────────────

    def topic(self, name: str, **options: Any) -> Any:
        return self.client.topic(name, **options)

    async def pop(self, *names: str, **options: Any) -> Any:
        return await self.client.pop(*names, **options)

    async def pop_many(self, *names: str, **options: Any) -> Any:
        return await self.client.pop_many(*names, **options)

    async def topics(self) -> Any:
        return await self.client.topics()

    async def of(self, job: Any, verb: str, *given: Any, **named: Any) -> None:
        await getattr(AnswerProxy(job, self.said), verb)(*given, **named)

    @asynccontextmanager
    async def inside(self, job: Any) -> AsyncIterator[Any]:
        async with AnswerProxy(job, self.said).inside():
            yield job


def perform(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


def verbs_of(*kinds: type) -> dict[str, set[str]]:
    """The public verbs of handles: what a story must have said."""
    return {
        kind.__name__: {
            name
            for each in kind.__mro__
            if each.__module__.startswith("tarry.clients")
            for name, found in vars(each).items()
            if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, property))
        }
        for kind in kinds
    }
