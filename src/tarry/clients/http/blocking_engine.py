# Made from src/tarry/clients/http/awaited_engine.py by tools/blocking.py: change that file, then `make blocking`.
"""The engine of a blocking client of a service: its connections, and the handles that differ from those of a server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.blocking.concurrency import Local, LoopWarning, sleep
from tarry.clients.blocking.flow_runner import run_flow
from tarry.clients.blocking.guarded_queue import GuardedQueue
from tarry.clients.blocking.interfaces import EndsSource, P, Popped, SharedPartHost
from tarry.clients.config import CLOSED, wait_seconds
from tarry.clients.guarded_queues import call_on_late
from tarry.clients.http.config import HTTPClientConfig, pop_requests
from tarry.clients.http.proxies import clearest_fault, open_client, proxy_fault, transport_for
from tarry.clients.http.requests import (
    HTTPRequest,
    RetryLater,
    answer_of,
    invalid_address,
    not_a_service,
    unavailable_error,
)
from tarry.clients.http.verbs.guarded_requests import HTTPGuardedVerbs
from tarry.clients.http.verbs.topic_requests import HTTPTopicVerbs
from tarry.clients.http.verbs.unsupported import HTTPLockBackend, not_supported
from tarry.clients.redisson.http_queues import take_from_any
from tarry.connections.clock import now
from tarry.core.requests import Operation
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.values.keys import QueueKeys
from tarry.verbs.guarded.guarded_context import GuardedContext, GuardedItem, GuardedStats
from tarry.verbs.jobs.job_values import ENDED, JobInfo
from tarry.verbs.locks.lock_table import LockTable
from tarry.wire.answers import popped_parts
from tarry.wire.types import LONGEST_WAIT_S

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class HTTPEngine:
    """Performs requests to a service. Every handle of an HTTP client has it."""

    keeps_maps = False
    """A service does not keep its clients' maps."""

    def __init__(self, config: HTTPClientConfig) -> None:
        self.config = config
        self._asked_before: set[tuple[str, str]] = set()
        self._open: Local[str, httpx.Client] = Local()
        self._loop_warning = LoopWarning()
        self._closed = False

    def run(self, operation: Operation[T]) -> T:
        """Performs a verb's operation: a request, or a flow of them."""
        answer: T
        if isinstance(operation, HTTPRequest):
            answer = self.perform(operation)
        else:
            assert isinstance(operation, GeneratorType), "a verb returns a request or a flow"
            answer = run_flow(operation, self.perform)
        return answer

    def perform(self, request: HTTPRequest[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        httpx = self.config.library()
        self._loop_warning.check()
        if self._closed:
            raise BadInput(CLOSED)
        if request.first is not None:
            self._ask_before(request.first)
        place, budget = self.config.service, self.config.patience.start(time.monotonic)
        last_fault: Exception | None = None
        while True:
            try:
                status, body = self._send(self.config.as_sent(request, budget))
                return answer_of(place, request, status, body)
            except (httpx.TransportError, RetryLater) as fault:
                last_fault = clearest_fault(last_fault, fault)
                pause = budget.next_delay(random.random())
                if pause is None:
                    proxy = proxy_fault(self._http(), place.url, last_fault)
                    raise unavailable_error(place, budget.elapsed, last_fault, proxy)  # noqa: B904  # it says its cause, where that may be shown
            except httpx.InvalidURL as fault:
                raise invalid_address(place, fault) from None
            except httpx.DecodingError as fault:
                raise not_a_service(place, "its answer is packed wrongly") from fault
            budget.tries += 1
            sleep(pause)

    def _send(self, request: httpx.Request) -> tuple[int, bytes]:
        """Sends a request by the transport that httpx has chosen for its URL."""
        response = transport_for(self._http(), request.url).handle_request(request)
        try:
            return response.status_code, response.read()
        except BaseException:
            response.close()
            raise

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        """Returns the first payload of any of the queues, which are moved while the service waits. A queue's list has the queue's name."""
        names = [keys.ready.decode() for keys in queues]
        while True:
            wait = min(seconds, LONGEST_WAIT_S)
            queue, payloads = self.perform(take_from_any(names, wait))
            if payloads:
                return (queue or "").encode(), payloads[0]
            seconds -= wait
            if seconds <= 0:
                return None

    def wait_until_ended(self, topic: HTTPTopicVerbs[Any], id: str, seconds: float) -> JobInfo[Any] | None:
        """Waits until a job is finished or dead; returns it as it is then, or at the end of the time."""
        until = now() + seconds
        while True:
            wait = min(max(until - now(), 0), LONGEST_WAIT_S)
            job: JobInfo[Any] | None = self.perform(topic.wait_until_ended(id, wait))
            if job is None or job.state in ENDED or now() >= until:
                return job

    def open_ends(self, topic: HTTPTopicVerbs[Any]) -> EndsSource:  # noqa: ARG002  # as every engine
        """A service streams them to anybody."""
        raise not_supported("ends")

    def _ask_before(self, request: HTTPRequest[Any]) -> None:
        """Performs a request's ``first``, once."""
        mark = request.path, repr((request.body, request.absent))
        if mark not in self._asked_before:
            self.perform(request)
            self._asked_before.add(mark)

    def shared_part(self, kind: Callable[[SharedPartHost], P]) -> P:  # noqa: ARG002  # as every engine
        """A connection to the server itself: only a map's listeners ask for one here."""
        raise not_supported("map_cache")

    def run_view(self, operation: Operation[T]) -> T:
        """The service decides whether a view comes from a replica."""
        return self.run(operation)

    def register_topic(self, topic: str) -> None:
        """The service does it."""

    def take(
        self, topics: Sequence[HTTPTopicVerbs[Any]], limit: int, wait: Duration | None, ttr: Duration | None
    ) -> list[Popped]:
        """Waits for jobs. Returns up to ``limit`` of the first topic that has any."""
        for first in filter(None, [topic.first for topic in topics]):
            self._ask_before(first)
        for request in pop_requests(topics, limit, wait_seconds(wait), ttr):
            if found := self.perform(request):
                at = next(at for at, topic in enumerate(topics) if topic.context.name == found[0].topic)
                return [(at, *popped_parts(job)) for job in found]
        return []

    def _http(self) -> httpx.Client:
        """The connections of this process."""
        return self._open.get("", lambda: open_client(self.config.library().Client, self.config.limits()))

    def close(self) -> None:
        """Closes the connections for good."""
        self._closed = True
        for http in self._open.take_all():
            http.close()


class HTTPLocks:
    """The locks of a client, of which this process never holds one."""

    def __init__(self, engine: HTTPEngine) -> None:
        self._engine = engine
        self.backend = HTTPLockBackend()
        self.table = LockTable(now, nullcontext(), lambda: None, lambda _: True)

    def start(self) -> None:
        """Before a lock is acquired."""
        raise not_supported("lock.acquire")

    def run(self, step: HTTPRequest[T]) -> T:
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
        self._max_lateness_us = context.max_lateness_us
        self._on_late = on_late

    def push(self, items: Mapping[T, Duration] | Iterable[tuple[T, Duration]]) -> list[datetime]:
        due: list[datetime] = self.engine.run(self._verbs.push(items))
        return due

    def _poll_up_to(self, limit: int, seconds: float) -> list[GuardedItem[T]]:
        for request in self._verbs.poll_requests(limit, seconds):
            items: list[GuardedItem[T]] = self.engine.perform(request)
            if items:
                call_on_late(items, self._on_late, self._max_lateness_us)
                return items
        return []

    def stats(self) -> GuardedStats:
        now: GuardedStats = self.engine.perform(self._verbs.stats())
        return now

    def clear(self) -> bool:
        gone: bool = self.engine.perform(self._verbs.clear())
        return gone
