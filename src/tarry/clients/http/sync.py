"""``tarry.HTTPClient``: topics of a service, for machines that may only reach that."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from tarry.clients.http.asking import Ask, Later, Place, answer_of, given_up
from tarry.clients.http.origin import HTTPOrigin, pops, topics, workers
from tarry.clients.origin import MAX_BODY, PATIENCE, seconds_of
from tarry.clients.sync.topic import Topic
from tarry.errors import BadInput
from tarry.verbs.codecs import Codec
from tarry.verbs.workers import WorkerInfo
from tarry.words.durations import Duration

if TYPE_CHECKING:
    import httpx

    from tarry.clients.sync.engine import Engine
    from tarry.clients.sync.job import Job

T = TypeVar("T")


class HTTPEngine:
    """Performs requests to a service: what a topic of ``HTTPClient`` works with."""

    def __init__(self, origin: HTTPOrigin) -> None:
        self.origin = origin
        self._open: dict[int, httpx.Client] = {}
        self._opening = threading.Lock()

    def run(self, operation: Any) -> Any:
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
            return end.value

    def perform(self, request: Ask[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        import httpx

        place, began, tries = self.origin.place, time.monotonic(), 0
        while True:
            try:
                answer = self._http().request(**place.arguments(request, repeated=tries > 0))
                return answer_of(request, answer.status_code, answer.content)
            except (httpx.TransportError, Later) as fault:
                spent = time.monotonic() - began
                pause = self.origin.patience.pause(tries, spent, random.random())
                if pause is None:
                    raise given_up(place, spent, fault) from fault
            tries += 1
            time.sleep(pause)

    def introduce(self, topic: str) -> None:
        """The service does it."""

    def take(self, topics: Sequence[Topic[T]], n: int, wait: Duration | None, ttr: Duration | None) -> list[Job[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        names = [topic.name for topic in topics]
        for request in pops(topics[0].verbs.holder, names, n, seconds_of(wait), ttr):
            taken, origins = self.perform(request)
            if taken.jobs:
                topic = next(topic for topic in topics if topic.name == origins[0])
                return topic._handed(taken, taken.jobs)
        return []

    def _http(self) -> httpx.Client:
        """The connections of this process."""
        home = os.getpid()
        if home not in self._open:
            with self._opening:
                if home not in self._open:
                    self._open = {home: self.origin.library().Client(limits=self.origin.limits())}
        return self._open[home]

    def close(self) -> None:
        http = self._open.pop(os.getpid(), None)
        if http is not None:
            http.close()


class HTTPClient:
    """Topics of a service (``tarry serve``), with the verbs that ``Client`` has: thread-safe, fork-safe, a context manager.

    ``url`` is the service's (else ``TARRY_SERVICE_URL``, else http://127.0.0.1:7070), ``token`` opens it (else
    ``TARRY_TOKEN``), ``namespace`` is the token's or the service's first unless it is given. Raises what ``Client`` raises,
    and ``NotAllowed``.
    """

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

    def __enter__(self) -> HTTPClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. The next verb would open them again."""
        self.engine.close()

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None) -> Topic[Any]: ...
    def topic(self, name: str, *, type: type[Any] | Codec[Any] | None = None) -> Topic[Any]:
        """A topic by its name, with the verbs of every topic; ``type`` is what its bodies are."""
        return Topic(cast("Engine", self.engine), self.engine.origin.verbs(name, type))

    def topics(self) -> list[str]:
        """The topics that have been added to, by name. A hint: a purged one stays in it."""
        return self.engine.perform(topics())

    def workers(self) -> list[WorkerInfo]:
        """The worker processes that live, by name, as each told of itself in the last half minute: what they work on, how
        busy they are, what they have had in hand for longest. A hint: a killed one stays in it for so long."""
        return self.engine.perform(workers())

    def pop(self, *topics: Topic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None) -> Job[Any] | None:
        """A job of the first topic, in the order given, that has one ready; ``None`` when none is due within ``wait``."""
        chosen = [self.topic(topic) if isinstance(topic, str) else topic for topic in topics]
        jobs = self.engine.take(chosen, 1, wait, ttr)
        return jobs[0] if jobs else None
