"""Server-sent events: a topic's numbers, whenever they have changed.

A change is a difference in what ``stats`` answers. It is found by looking, once a second, and only while somebody listens:
one look for all who listen, in one pipeline. No publisher is needed, a listener may come and go, and nothing is paid by
those who add and pop. What changes twice within a second is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.clients.http.wire import topic_answers
from tarry.errors import TarryError
from tarry.programs.service.problems import TooMany, problem_of
from tarry.programs.service.replies import Stream
from tarry.programs.service.table import ANY, Table

if TYPE_CHECKING:
    from tarry.programs.service.door import Door
    from tarry.programs.service.exchange import Exchange

table = Table("events")
TICK_S = 1.0
QUIET_S = 15.0
"""After so long without an event a comment is sent, so that nothing between takes the connection for dead."""
MOST_LISTENERS = 512
MOST_TOPICS = 1000
MEDIA = "text/event-stream"


class Listener:
    """One who listens: to a topic, or to all of a namespace. Keeps the newest of each topic, never a backlog."""

    def __init__(self, namespace: str, topic: str | None) -> None:
        self.namespace = namespace
        self.topic = topic
        self.over = False
        self._seen: dict[str, Any] = {}
        self._news: dict[str, bytes] = {}
        self._bell = asyncio.Event()

    def hear(self, stats: topic_answers.TopicStats) -> None:
        """The state of a topic; passed on when it is another than before."""
        if self.topic in (None, stats.topic):
            marks = tuple(getattr(stats, name) for name in stats.__struct_fields__ if name != "now")
            if self._seen.get(stats.topic) != marks:
                self._seen[stats.topic] = marks
                self.tell(stats.topic, event("stats", stats))

    def tell(self, about: str, text: bytes) -> None:
        self._news[about] = text
        self._bell.set()

    def stop(self) -> None:
        self.over = True
        self._bell.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while not self.over:
            try:
                async with asyncio.timeout(QUIET_S):
                    await self._bell.wait()
            except TimeoutError:
                yield b": still here\n\n"
            self._bell.clear()
            news, self._news = self._news, {}
            for text in news.values():
                yield text


class Ticker:
    """Looks once a second, as long as anybody listens."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None

    async def listen(self, listener: Listener) -> AsyncGenerator[bytes, None]:
        """The events of one listener."""
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        try:
            async for text in listener:
                yield text
        finally:
            self._listeners.discard(listener)

    @property
    def full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    def stop(self) -> None:
        for listener in self._listeners:
            listener.stop()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._listeners:
            for namespace in {listener.namespace for listener in self._listeners}:
                await self._look(namespace, [one for one in self._listeners if one.namespace == namespace])
            await asyncio.sleep(TICK_S)

    async def _look(self, namespace: str, listeners: list[Listener]) -> None:
        try:
            names = {one.topic for one in listeners if one.topic is not None}
            if any(one.topic is None for one in listeners):
                names.update((await self._door.clients[namespace].topics())[:MOST_TOPICS])
            topics = [self._door.clients.topic(namespace, name) for name in sorted(names)]
            found = await asyncio.gather(*[topic.stats() for topic in topics])
        except (TarryError, OSError) as fault:
            for listener in listeners:
                listener.tell("", event("problem", problem_of(fault)[0]))
            return
        for stats in map(topic_answers.topic_stats, found):
            for listener in listeners:
                listener.hear(stats)


def event(kind: str, data: msgspec.Struct) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


def _listen(x: Exchange, topic: str | None) -> Stream:
    ticker: Ticker = x.door.part(Ticker)
    if ticker.full:
        raise TooMany(f"{MOST_LISTENERS} listen already; ask another service, or later.")
    return Stream(ticker.listen(Listener(x.namespace, topic)), MEDIA)


@table.row("GET", "/v1/topics/{topic}/events", may=ANY, gives=str, media=MEDIA)
async def of_topic(x: Exchange) -> Stream:
    """Server-sent events: the topic's `stats` now, and again whenever they changed, at most once a second."""
    return _listen(x, x.topic.name)


@table.row("GET", "/v1/events", may=ANY, gives=str, media=MEDIA)
async def of_all(x: Exchange) -> Stream:
    """The same for all topics of the namespace (1,000 at most)."""
    return _listen(x, None)
