"""Server-sent events: the stats of a topic, whenever they have changed; and the ends of its jobs, each once.

The service polls ``stats`` once a second, while at least one client listens: one pipeline for all listeners, and each change is encoded
once for all of them. Adding and popping so costs nothing more. Several changes within a second make one event.

A stream of ends reads what the topic keeps, a portion after each message of the server that jobs were finished. A client that comes back with
the last id goes on behind it, at whichever process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from tarry import End, Stats, UnknownEnds
from tarry.errors import BadInput, NotKept, TarryError
from tarry.internal import failures, supervise_task
from tarry.programs.service.routes.topic_routes import start_of
from tarry.programs.serving.problems import TooMany, problem_of
from tarry.programs.serving.responses import StreamResponse
from tarry.programs.serving.router import RouteTable
from tarry.wire import answers, topic_answers, topic_models
from tarry.wire.endpoint import ANY_SCOPE, VIEW

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential
    from tarry.programs.serving.request import Application, ServiceRequest
    from tarry.types import AsyncEnds

table = RouteTable("events")
WORK = "tarry event streams"
POLL_INTERVAL_S = 1.0
KEEP_ALIVE_S = 15.0
"""After this time without an event a comment is sent, so that no proxy takes the connection for dead."""
MOST_LISTENERS = 512
MOST_PER_TOKEN = 64
MOST_TOPICS = 1000
RETRY_S = 10
MEDIA = "text/event-stream"
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class OpenStreams:
    """The streams that are open, of stats and of ends, by the ids of their tokens."""

    def __init__(self, app: Application) -> None:  # noqa: ARG002  # as every part
        self._by_token = Counter[str]()

    def enter(self, credential: Credential | None) -> Callable[[], None]:
        """Counts one more; what it returns ends it. Raises ``TooMany``."""
        token = "" if credential is None else credential.token.id
        if self._by_token.total() >= MOST_LISTENERS:
            detail = f"{MOST_LISTENERS} clients listen already; use another service, or retry later."
            raise TooMany(detail, retry_after=str(RETRY_S))
        if token and self._by_token[token] >= MOST_PER_TOKEN:
            detail = f"{MOST_PER_TOKEN} clients listen with this token already; close some, or retry later."
            raise TooMany(detail, retry_after=str(RETRY_S))
        self._by_token[token] += 1
        return lambda: self._by_token.subtract([token])

    def stop(self) -> None:
        """Each stream ends by itself when the service drains."""


class StatsListener:
    """One client that listens to a topic, or to all topics of a namespace. Keeps the newest event of each, never a backlog."""

    def __init__(self, namespace: str, topic: str | None, leave: Callable[[StatsListener], None]) -> None:
        self.namespace = namespace
        self.topic = topic
        self._leave = leave
        self._stopped = False
        self._seen = set[str]()
        self._pending: dict[str, bytes] = {}
        self._wakeup = asyncio.Event()

    def missing(self, topics: Iterable[str], changed: Iterable[str]) -> set[str]:
        """The topics whose stats it needs: the changed ones, and those that it has never been sent."""
        wanted = set(changed).union(set(topics) - self._seen)
        return wanted if self.topic is None else wanted & {self.topic}

    def offer(self, topic: str, text: bytes) -> None:
        """Takes the event of a topic."""
        self._seen.add(topic)
        self.put(topic, text)

    def put(self, about: str, text: bytes) -> None:
        self._pending[about] = text
        self._wakeup.set()

    def stop(self) -> None:
        self._stopped = True
        self._wakeup.set()

    async def aclose(self) -> None:
        """Leaves the poller; whether or not anything was sent."""
        self._leave(self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while not self._stopped:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._wakeup.wait()
            except TimeoutError:
                yield b": still here\n\n"
            self._wakeup.clear()
            news, self._pending = self._pending, {}
            if news and not self._stopped:
                yield b"".join(news.values())


class StatsPoller:
    """Polls the stats once a second while there are listeners."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._listeners: set[StatsListener] = set()
        self._task: asyncio.Task[None] | None = None
        self._last: dict[str, dict[str, Stats]] = {}
        """The stats of the last poll, by namespace and topic, without their time."""

    def listen(self, namespace: str, topic: str | None, credential: Credential | None) -> StatsListener:
        """Adds a listener, until its ``aclose``. Raises ``TooMany``."""
        release = self._app.shared_part(OpenStreams).enter(credential)

        def leave(listener: StatsListener) -> None:
            self._listeners.discard(listener)
            release()

        listener = StatsListener(namespace, topic, leave)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(supervise_task(WORK, self._run))
        return listener

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
        self._last.clear()

    async def _send_stats(self, namespace: str, listeners: list[StatsListener]) -> None:
        try:
            names = {one.topic for one in listeners if one.topic is not None}
            if any(one.topic is None for one in listeners):
                names.update((await self._app.clients[namespace].topics())[:MOST_TOPICS])
            topics = [self._app.clients.topic(namespace, name) for name in sorted(names)]
            found = {stats.topic: stats for stats in await asyncio.gather(*[topic.stats() for topic in topics])}
        except Exception as fault:  # noqa: BLE001  # whatever it is, it is sent, and the next second tries again
            if not isinstance(fault, TarryError):
                failures.note(WORK, fault)
            text = event("problem", problem_of(fault)[0])
            for listener in listeners:
                listener.put("", text)
            return
        last, texts = self._last.get(namespace, {}), dict[str, bytes]()
        marks = {topic: replace(stats, now=_NEVER) for topic, stats in found.items()}
        changed = {topic for topic, mark in marks.items() if last.get(topic) != mark}
        for listener in listeners:
            for topic in listener.missing(found, changed):
                if topic not in texts:
                    texts[topic] = event("stats", topic_answers.STATS.dump(found[topic]))
                listener.offer(topic, texts[topic])
        self._last[namespace] = marks


class EndsStream:
    """The ends of a topic's jobs for one client."""

    def __init__(self, ends: AsyncEnds[Any], first: End[Any] | UnknownEnds | None, release: Callable[[], None]) -> None:
        self._ends = ends
        self._first = first
        self._release = release

    async def aclose(self) -> None:
        self._release()
        await self._ends.close()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        found = self._first
        while True:
            if found is None:  # with this id the client comes back to this moment, also if no end has come yet
                yield b"id: %s\n: still here\n\n" % (self._ends.position or "").encode()
            else:
                id = found.id if isinstance(found, End) else None
                yield event(*answers.shown_end(found), id=id)
            try:
                found = await self._ends.next(wait=KEEP_ALIVE_S)
            except TarryError as fault:
                yield event("problem", problem_of(fault)[0])
                return  # a client comes back with the last id


def event(kind: str, data: msgspec.Struct, *, id: str | None = None) -> bytes:
    mark = b"" if id is None else b"id: %s\n" % id.encode()
    text = msgspec.json.encode(data).translate(_ONE_LINE)  # a body is JSON as its producer wrote it, in lines perhaps
    return b"%sevent: %s\ndata: %s\n\n" % (mark, kind.encode(), text)


def _listen(request: ServiceRequest, topic: str | None) -> StreamResponse:
    poller: StatsPoller = request.app.shared_part(StatsPoller)
    return StreamResponse(poller.listen(request.namespace, topic, request.credential), MEDIA)


@table.route("GET", "/v1/topics/{topic}/events", scopes=ANY_SCOPE, returns=str, media=MEDIA)
async def of_topic(request: ServiceRequest) -> StreamResponse:
    """Server-sent events: the topic's `stats` now, and again whenever they changed, at most once a second."""
    return _listen(request, request.topic.name)


@table.route(
    "GET",
    "/v1/topics/{topic}/ends",
    scopes=VIEW,
    query_model=topic_models.EndsQuery,
    problem_codes=(NotKept.code,),
    returns=str,
    media=MEDIA,
)
async def ends_of_topic(request: ServiceRequest) -> StreamResponse:
    """Server-sent events: each end of a job, `finished`, `dead` or `late`, oldest end first, with the job as it is kept.

    The header `Last-Event-ID`, which a browser sends by itself, or `since`, an id or a moment, continues behind it: each end comes once, in
    whichever process of the service. Without either it begins now. Where something after it is no longer kept, an event `unknown` comes
    first: `{"since": …, "until": …}`. The topic needs `keep_finished`.
    """
    last, since = request.headers.get(b"last-event-id"), request.query_model.since
    try:
        since = last.decode() if last else since
    except UnicodeDecodeError:
        raise BadInput("Last-Event-ID: it is not UTF-8.") from None
    ends = request.topic.ends(since=None if since is None else start_of(since))
    release = request.app.shared_part(OpenStreams).enter(request.credential)
    try:
        return StreamResponse(EndsStream(ends, await ends.next(), release), MEDIA)
    except BaseException:
        release()
        await ends.close()
        raise


@table.route("GET", "/v1/events", scopes=ANY_SCOPE, returns=str, media=MEDIA)
async def of_all(request: ServiceRequest) -> StreamResponse:
    """The statistics of all topics of the namespace (1,000 at most), again and again."""
    return _listen(request, None)
