# Made from src/tarry/clients/awaited/ends.py by tools/blocking.py: change that file, then `make blocking`.
"""Reading the ends of jobs: a subscription, and a portion of what is kept after each message.

finish ──▶ message ──▶ portions until all is read, ten times a second at most

a look every ten seconds, too: a message may be lost, and a death sends none
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from tarry.clients.blocking.concurrency import Signal, sleep
from tarry.clients.blocking.interfaces import EndsSource, SharedPartHost
from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.config import wait_seconds
from tarry.values import keys
from tarry.values.durations import Duration
from tarry.verbs.jobs.end_values import End, EndsPage, Position, UnknownEnds, position_of

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine
    from tarry.clients.channels import Subscriber
    from tarry.clients.handle_verbs import TopicHandleVerbs
    from tarry.verbs.jobs.topic import TopicVerbs

T = TypeVar("T")
LOOK_EVERY_S = 10.0
MOST_AT_ONCE = 200
"""A portion: the script that reads it must not block the server for long."""
REST_S = 0.1
"""After a portion that is not full: so a reader of a busy topic reads ten times a second, not once for each job."""


class ServerEnds:
    """The ends of a topic's jobs at a server."""

    def __init__(self, host: SharedPartHost, topic: TopicVerbs[Any]) -> None:
        self._host = host
        self._topic = topic
        self._news = Signal()
        self._subscribers: list[Subscriber] = []
        self._look_at = self._rest_until = 0.0
        """When to read though there is no news, and not to read though there is."""
        self._told: datetime | None = None
        """Until when unknown ends were told of."""

    def open(self) -> Self:
        """Subscribes to the news of each partition."""
        pubsub = self._host.shared_part(PubSub)
        try:
            for part in self._host.runner.run(self._topic.partitions()):
                channel = keys.finished_channel(part.keys)
                self._subscribers.append(pubsub.subscribe(channel, (channel,), lambda _, __: self._news.set()))
        except BaseException:
            self.close()
            raise
        return self

    def read(self, position: Position, seconds: float) -> EndsPage:
        """Reads those behind a position; waits for one if there is none yet. Each span of unknown ends comes once."""
        until = time.monotonic() + seconds
        while True:
            self._news.wait(min(until, self._look_at) - time.monotonic())
            sleep(max(0.0, min(until, self._rest_until) - time.monotonic()))
            self._news.clear()
            self._look_at = 0.0  # at once, after an error
            page = self._host.runner.run(self._topic.ends(position, MOST_AT_ONCE))
            found, now, again = [one for one in page.found if self._is_news(one)], time.monotonic(), page.again_in_s
            self._look_at = now + (LOOK_EVERY_S if again is None else again)
            self._rest_until = now if again == 0 else now + REST_S
            if found or (until <= now and again != 0):
                return page._replace(found=found)
            position = page.position

    def _is_news(self, one: End[Any] | UnknownEnds) -> bool:
        if isinstance(one, End):
            return True
        told, self._told = self._told, one.until if self._told is None else max(self._told, one.until)
        return told is None or told < one.until

    def close(self) -> None:
        """Ends the subscriptions."""
        pubsub = self._host.shared_part(PubSub)
        while self._subscribers:
            pubsub.unsubscribe(self._subscribers.pop())


class Ends(Generic[T]):
    """Iterates over the ends of a topic's jobs. Made by ``topic.ends()``; nothing is read before the iteration.

    You may iterate again after a ``break``, when ``wait`` is over, or after an error of the server. The iteration continues after the end
    that it returned last.
    """

    def __init__(
        self, engine: HandleEngine, verbs: TopicHandleVerbs[T], since: str | datetime | None, seconds: float
    ) -> None:
        self._engine = engine
        self._verbs = verbs
        self._seconds = seconds
        self._source: EndsSource | None = None
        self._read_to = self._given = position_of(since)
        self._left: list[End[T] | UnknownEnds] = []

    @property
    def position(self) -> str | None:
        """Where the iteration is. Give it as ``since=`` to continue there. It advances as time passes, even
        if no job ends.

        The position is ``None`` until the iteration begins, unless ``since`` was given.
        """
        return None if self._given.at is None else str(self._given)

    def __iter__(self) -> Iterator[End[T] | UnknownEnds]:
        try:
            while found := self._next(self._seconds):
                yield found
        finally:
            self.close()

    def next(self, *, wait: Duration | None = 0) -> End[T] | UnknownEnds | None:
        """Returns the next end, as the iteration does; ``None`` if none comes within ``wait``. When you need no more, call ``close``."""
        return self._next(wait_seconds(wait))

    def _next(self, seconds: float) -> End[T] | UnknownEnds | None:
        if not self._left:
            if self._source is None:
                self._source = self._engine.open_ends(self._verbs)
            page = self._source.read(self._read_to, seconds)
            self._read_to, self._left = page.position, [*reversed(page.found)]
        found = self._left.pop() if self._left else None
        if not self._left:
            self._given = self._read_to
        elif isinstance(found, End):
            self._given = position_of(found.id)
        return found

    def close(self) -> None:
        """Ends the subscription to messages of the server. If you iterate again, a new one begins."""
        if self._source is not None:
            self._source.close()
            self._source = None
