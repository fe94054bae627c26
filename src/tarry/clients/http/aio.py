"""``tarry.AsyncHTTPClient``: topics of a service, awaited."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from tarry.clients.aio.topic import AsyncTopic
from tarry.clients.http.asking import Ask, Later, Place, answer_of, given_up
from tarry.clients.http.origin import HTTPOrigin, pops, topics, workers
from tarry.clients.origin import MAX_BODY, PATIENCE, seconds_of
from tarry.errors import BadInput
from tarry.verbs.codecs import Codec
from tarry.verbs.workers import WorkerInfo
from tarry.words.durations import Duration

if TYPE_CHECKING:
    import httpx

    from tarry.clients.aio.engine import Engine
    from tarry.clients.aio.job import AsyncJob

T = TypeVar("T")


class HTTPEngine:
    """Performs requests to a service: what a topic of ``AsyncHTTPClient`` works with."""

    def __init__(self, origin: HTTPOrigin) -> None:
        self.origin = origin
        self._open: dict[tuple[asyncio.AbstractEventLoop, int], httpx.AsyncClient] = {}

    async def run(self, operation: Any) -> Any:
        """Performs what a verb said: a request, or a flow of them."""
        if isinstance(operation, Ask):
            return await self.perform(operation)
        try:
            request = next(operation)
            while True:
                try:
                    answer = await self.perform(request)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    request = operation.throw(fault)
                else:
                    request = operation.send(answer)
        except StopIteration as end:
            return end.value

    async def perform(self, request: Ask[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        import httpx

        place, began, tries = self.origin.place, time.monotonic(), 0
        while True:
            try:
                answer = await self._http().request(**place.arguments(request, repeated=tries > 0))
                return answer_of(request, answer.status_code, answer.content)
            except (httpx.TransportError, Later) as fault:
                spent = time.monotonic() - began
                pause = self.origin.patience.pause(tries, spent, random.random())
                if pause is None:
                    raise given_up(place, spent, fault) from fault
            tries += 1
            await asyncio.sleep(pause)

    async def introduce(self, topic: str) -> None:
        """The service does it."""

    async def take(
        self, topics: Sequence[AsyncTopic[T]], n: int, wait: Duration | None, ttr: Duration | None
    ) -> list[AsyncJob[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        names = [topic.name for topic in topics]
        for request in pops(topics[0].verbs.holder, names, n, seconds_of(wait), ttr):
            taken, origins = await self.perform(request)
            if taken.jobs:
                topic = next(topic for topic in topics if topic.name == origins[0])
                return topic._handed(taken, taken.jobs)
        return []

    def _http(self) -> httpx.AsyncClient:
        """The connections of this event loop and process."""
        home = (asyncio.get_running_loop(), os.getpid())
        if home not in self._open:
            self._open = {place: one for place, one in self._open.items() if not place[0].is_closed()}
            self._open[home] = self.origin.library().AsyncClient(limits=self.origin.limits())
        return self._open[home]

    async def close(self) -> None:
        http = self._open.pop((asyncio.get_running_loop(), os.getpid()), None)
        if http is not None:
            await http.aclose()


class AsyncHTTPClient:
    """The same as ``HTTPClient``, awaited. Cancelling a pop loses nothing: the service gives back what it handed out."""

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        token: str | None = None,
        max_body: int = MAX_BODY,
        patience: Duration = PATIENCE,
    ) -> None:
        self.engine = HTTPEngine(HTTPOrigin(Place.find(url, namespace, token), max_body, patience))
        self.namespace = namespace

    async def __aenter__(self) -> AsyncHTTPClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections. The next verb would open them again."""
        await self.engine.close()

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T]) -> AsyncTopic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None) -> AsyncTopic[Any]: ...
    def topic(self, name: str, *, type: type[Any] | Codec[Any] | None = None) -> AsyncTopic[Any]:
        """A topic by its name, with the verbs of every topic; ``type`` is what its bodies are."""
        return AsyncTopic(cast("Engine", self.engine), self.engine.origin.verbs(name, type))

    async def topics(self) -> list[str]:
        """The topics that have been added to, by name. A hint: a purged one stays in it."""
        return await self.engine.perform(topics())

    async def workers(self) -> list[WorkerInfo]:
        """The worker processes that live, by name, as each told of itself in the last half minute: what they work on, how
        busy they are, what they have had in hand for longest. A hint: a killed one stays in it for so long."""
        return await self.engine.perform(workers())

    async def pop(
        self, *topics: AsyncTopic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None
    ) -> AsyncJob[Any] | None:
        """A job of the first topic, in the order given, that has one ready; ``None`` when none is due within ``wait``."""
        chosen = [self.topic(topic) if isinstance(topic, str) else topic for topic in topics]
        jobs = await self.engine.take(chosen, 1, wait, ttr)
        return jobs[0] if jobs else None
