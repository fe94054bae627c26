"""What a blocking client of a service works with: its connections, and the handles that are others than at a server."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.guarding import tell_lateness
from tarry.clients.http.asking import Ask, Asking, Later, answer_of, given_up, no_service, unsent
from tarry.clients.http.origin import HTTPOrigin, pops
from tarry.clients.http.proxies import at_fault, opened
from tarry.clients.http.verbs.guarded import HTTPGuardedVerbs
from tarry.clients.http.verbs.queues import take_from_any
from tarry.clients.http.verbs.refusing import HTTPKeeper, refused
from tarry.clients.http.wire.words import MOST_WAIT_S
from tarry.clients.origin import seconds_of
from tarry.clients.sync.guarded import GuardedQueue
from tarry.clients.sync.topic import Topic
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.values.keys import QueueKeys
from tarry.verbs.guarded.context import GuardedContext, GuardedStats, Item
from tarry.verbs.locks.lock_table import LockTable

if TYPE_CHECKING:
    import httpx

    from tarry.clients.sync.job import Job

T = TypeVar("T")


class HTTPEngine:
    """Performs requests to a service: what every handle of ``HTTPClient`` works with."""

    keeps_maps = False
    """A service does not keep its clients' maps."""

    def __init__(self, origin: HTTPOrigin) -> None:
        self.origin = origin
        self._asked: set[tuple[str, str]] = set()
        self._open: dict[int, httpx.Client] = {}
        self._opening = threading.Lock()

    def run(self, operation: Ask[T] | Asking[T]) -> T:
        """Performs what a verb said: a request, or a flow of them."""
        if isinstance(operation, Ask):
            return self.perform(operation)
        try:
            request = next(operation)
            while True:
                try:
                    answer = self.perform(request)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    request = operation.throw(fault)
                else:
                    request = operation.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def perform(self, request: Ask[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        httpx = self.origin.library()
        if request.first is not None:
            self._before(request.first)
        place, budget = self.origin.place, self.origin.patience.start(time.monotonic)
        while True:
            try:
                answer = self._http().request(**self.origin.arguments(request, budget))
                return answer_of(place, request, answer.status_code, answer.content)
            except (httpx.TransportError, Later) as fault:
                pause = budget.next_delay(random.random())
                if pause is None:
                    proxy = at_fault(self._http(), place.url, fault)
                    raise given_up(place, budget.elapsed, fault, proxy)  # noqa: B904  # it says its cause, where that may be shown
            except httpx.InvalidURL as fault:
                raise unsent(place, fault) from None
            except httpx.DecodingError as fault:
                raise no_service(place, "its answer is packed wrongly") from fault
            budget.tries += 1
            time.sleep(pause)

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        """The first payload of any of the queues, which move while the service waits. A queue's list has the queue's name."""
        names = [keys.ready.decode() for keys in queues]
        while True:
            wait = min(seconds, MOST_WAIT_S)
            queue, payloads = self.perform(take_from_any(names, wait))
            if payloads:
                return (queue or "").encode(), payloads[0]
            seconds -= wait
            if seconds <= 0:
                return None

    def _before(self, request: Ask[Any]) -> None:
        """What must have been asked once."""
        mark = request.path, repr((request.said, request.absent))
        if mark not in self._asked:
            self.perform(request)
            self._asked.add(mark)

    def part(self, _: Any) -> Any:
        """A connection to the server itself: only a map's listeners ask for one here."""
        raise refused("map_cache")

    def look(self, operation: Ask[T] | Asking[T]) -> T:
        """Where a view is from, the service decides."""
        return self.run(operation)

    def introduce(self, topic: str) -> None:
        """The service does it."""

    def take(self, topics: Sequence[Topic[T]], n: int, wait: Duration | None, ttr: Duration | None) -> list[Job[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        verbs: list[Any] = [topic.verbs for topic in topics]
        for request in filter(None, [one.first for one in verbs]):
            self._before(request)
        for request in pops(verbs, n, seconds_of(wait), ttr):
            found, name = self.perform(request)
            if found:
                topic = next(topic for topic in topics if topic.name == name)
                return [job for taken in found for job in topic._handed(taken, taken.jobs)]
        return []

    def _http(self) -> httpx.Client:
        """The connections of this process."""
        home = os.getpid()
        if home not in self._open:
            with self._opening:
                if home not in self._open:
                    self._open = {home: opened(self.origin.library().Client, self.origin.limits())}
        return self._open[home]

    def close(self) -> None:
        http = self._open.pop(os.getpid(), None)
        if http is not None:
            http.close()


class HTTPLocks:
    """The locks of a client: nobody here ever holds one."""

    def __init__(self, engine: HTTPEngine) -> None:
        self._engine = engine
        self.keeper = HTTPKeeper()
        self.house = LockTable(time.monotonic, nullcontext(), lambda: None, lambda _: True)

    def keep_time(self) -> None:
        """Before a lock is acquired."""
        raise refused("lock.acquire")

    def run(self, step: Ask[T]) -> T:
        return self._engine.perform(step)


class HTTPGuardedQueue(GuardedQueue[T]):
    """The same queue, whose verbs the service performs."""

    def __init__(
        self,
        engine: HTTPEngine,
        context: GuardedContext[T],
        verbs: HTTPGuardedVerbs,
        on_late: Callable[[timedelta], object] | None,
    ) -> None:
        self.engine: Any = engine
        self.name = context.name
        self._verbs = verbs
        self._bound_us = context.max_lateness_us
        self._on_late = on_late

    def push(self, items: Mapping[T, Duration] | Iterable[tuple[T, Duration]]) -> list[datetime]:
        due: list[datetime] = self.engine.run(self._verbs.push(items))
        return due

    def poll(self, *, wait: Duration | None = 0, count: int = 1) -> list[Item[T]]:
        for request in self._verbs.polls(count, seconds_of(wait)):
            items: list[Item[T]] = self.engine.perform(request)
            if items:
                tell_lateness(items, self._on_late, self._bound_us)
                return items
        return []

    def stats(self) -> GuardedStats:
        now: GuardedStats = self.engine.perform(self._verbs.stats())
        return now

    def clear(self) -> bool:
        gone: bool = self.engine.perform(self._verbs.clear())
        return gone
