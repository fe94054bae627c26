"""Server-sent events: the stats of a topic, whenever they have changed.

The service polls ``stats`` once a second, while at least one client listens: one pipeline for all listeners. Adding and
popping so costs nothing more. Several changes within a second make one event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import msgspec

from tarry.connections.background import failures, supervise_task
from tarry.errors import TarryError
from tarry.programs.service.responses import StreamResponse
from tarry.programs.service.router import RouteTable
from tarry.programs.serving.problems import TooMany, problem_of
from tarry.verbs.jobs.stats import Stats
from tarry.wire import topic_answers
from tarry.wire.endpoint import ANY_SCOPE

if TYPE_CHECKING:
    from tarry.programs.service.request import Application, ServiceRequest

table = RouteTable("events")
WORK = "tarry event streams"
POLL_INTERVAL_S = 1.0
KEEP_ALIVE_S = 15.0
"""After this time without an event a comment is sent, so that no proxy takes the connection for dead."""
MOST_LISTENERS = 512
MOST_TOPICS = 1000
MEDIA = "text/event-stream"
_NEVER = datetime.min.replace(tzinfo=timezone.utc)


class StatsListener:
    """One client that listens to a topic, or to all topics of a namespace. Keeps the newest stats of each, never a backlog."""

    def __init__(self, namespace: str, topic: str | None) -> None:
        self.namespace = namespace
        self.topic = topic
        self.stopped = False
        self._last: dict[str, Stats] = {}
        self._pending: dict[str, bytes] = {}
        self._wakeup = asyncio.Event()

    def offer(self, stats: Stats) -> None:
        """Takes the stats of a topic; sends them if they have changed."""
        if self.topic in (None, stats.topic):
            marks = replace(stats, now=_NEVER)
            if self._last.get(stats.topic) != marks:
                self._last[stats.topic] = marks
                self.put(stats.topic, event("stats", topic_answers.STATS.dump(stats)))

    def put(self, about: str, text: bytes) -> None:
        self._pending[about] = text
        self._wakeup.set()

    def stop(self) -> None:
        self.stopped = True
        self._wakeup.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while not self.stopped:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._wakeup.wait()
            except TimeoutError:
                yield b": still here\n\n"
            self._wakeup.clear()
            news, self._pending = self._pending, {}
            for text in news.values():
                yield text


class StatsPoller:
    """Polls the stats once a second while there are listeners."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._listeners: set[StatsListener] = set()
        self._task: asyncio.Task[None] | None = None

    async def listen(self, listener: StatsListener) -> AsyncGenerator[bytes, None]:
        """Yields the events of one listener."""
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(supervise_task(WORK, self._run))
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
                await self._send_stats(namespace, [one for one in self._listeners if one.namespace == namespace])
            await asyncio.sleep(POLL_INTERVAL_S)

    async def _send_stats(self, namespace: str, listeners: list[StatsListener]) -> None:
        try:
            names = {one.topic for one in listeners if one.topic is not None}
            if any(one.topic is None for one in listeners):
                names.update((await self._app.clients[namespace].topics())[:MOST_TOPICS])
            topics = [self._app.clients.topic(namespace, name) for name in sorted(names)]
            found = await asyncio.gather(*[topic.stats() for topic in topics])
        except Exception as fault:  # noqa: BLE001  # whatever it is, it is sent, and the next second tries again
            if not isinstance(fault, TarryError):
                failures.note(WORK, fault)
            for listener in listeners:
                listener.put("", event("problem", problem_of(fault)[0]))
            return
        for stats in found:
            for listener in listeners:
                listener.offer(stats)


def event(kind: str, data: msgspec.Struct) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data))


def _listen(request: ServiceRequest, topic: str | None) -> StreamResponse:
    poller: StatsPoller = request.app.shared_part(StatsPoller)
    if poller.full:
        raise TooMany(f"{MOST_LISTENERS} clients listen already; use another service, or retry later.")
    return StreamResponse(poller.listen(StatsListener(request.namespace, topic)), MEDIA)


@table.route("GET", "/v1/topics/{topic}/events", scopes=ANY_SCOPE, returns=str, media=MEDIA)
async def of_topic(request: ServiceRequest) -> StreamResponse:
    """Server-sent events: the topic's `stats` now, and again whenever they changed, at most once a second."""
    return _listen(request, request.topic.name)


@table.route("GET", "/v1/events", scopes=ANY_SCOPE, returns=str, media=MEDIA)
async def of_all(request: ServiceRequest) -> StreamResponse:
    """The statistics of all topics of the namespace (1,000 at most), again and again."""
    return _listen(request, None)
