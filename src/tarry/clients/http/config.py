"""The settings of a client of a service, and the requests that are not verbs of a topic. The same for both clients."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.clients.config import check_max_body, redisson_of
from tarry.clients.guarded_queues import guarded_context, with_late_policy
from tarry.clients.http.requests import MISSING_EXTRA, HTTPRequest, ServiceAddress, own_headers, request_to
from tarry.clients.http.verbs.guarded_requests import HTTPGuardedVerbs
from tarry.clients.http.verbs.request_fields import optional_span
from tarry.clients.http.verbs.schedule_requests import HTTPScheduleVerbs
from tarry.clients.http.verbs.topic_requests import HTTPTopicVerbs
from tarry.clients.http.verbs.unsupported import HTTPMapVerbs, not_supported
from tarry.clients.redisson.http_queues import HTTPBlockingQueueVerbs, HTTPDelayedQueueVerbs
from tarry.clients.redisson.map_caches import map_verbs
from tarry.core.patience import Patience, RetryBudget
from tarry.errors import BadInput, MissingExtra
from tarry.values import keys, names
from tarry.values.durations import SECOND, Duration, duration_us
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.topic_context import TopicContext
from tarry.verbs.redisson.delayed.queue_context import keys_of, queue_context
from tarry.verbs.workers import WorkerInfo, WorkerMode, check_mode
from tarry.wire import answers, topic_models
from tarry.wire import job_models as models
from tarry.wire.endpoints import job_endpoints as jobs
from tarry.wire.endpoints import topic_endpoints as topics
from tarry.wire.types import LONGEST_WAIT_S

if TYPE_CHECKING:
    import httpx

    from tarry.verbs.guarded.guarded_context import GuardedContext
    from tarry.verbs.redisson.mapcache.map_values import Backend

MOST_URLS = 256
"""URLs that are kept parsed: parsing takes a tenth of the processor time of a request."""
_TIMEOUTS = ("connect", "read", "write", "pool")
UNLIMITED_CONNECTIONS = 10_000
"""Connections at once: a waiting pop holds one, and must not keep a verb from being sent."""


class HTTPClientConfig:
    """Checked settings; makes the verbs of a client's handles. Raises ``BadInput``.

    The verbs have the names and options of those that return script calls, for which the handles were written: tests/clients
    checks this.
    """

    cluster = False
    """The service knows where the keys are."""

    def __init__(self, service: ServiceAddress, max_body: int, patience: Duration, redisson: str | None = None) -> None:
        self.max_body = check_max_body(max_body)
        self.service = service
        self.namespace = service.namespace or "default"
        self.patience = Patience(duration_us(patience, "patience") / SECOND)
        self.redisson = redisson_of(redisson)
        self.name = names.random_word(os.urandom)
        self._parsed_url = lru_cache(maxsize=MOST_URLS)(self._parse_url)
        self._declared_partitions: dict[str, int] = {}
        self._ids = names.IdGenerator(time.time_ns, os.urandom)

    def _parse_url(self, url: str) -> Any:
        parsed = self.library().URL(url)
        return parsed, [(b"host", parsed.netloc), *self.service.headers]

    def as_sent(self, request: HTTPRequest[Any], budget: RetryBudget) -> Any:
        """Returns a request as httpx's transports send it. All its tries together have its wait and the patience as their time."""
        httpx, within = self.library(), budget.remaining + request.wait
        url, headers = self._parsed_url(self.service.url_of(request))
        content = b"" if request.body is None else msgspec.json.encode(request.body)
        return httpx.Request(
            request.method,
            url,
            headers=[*headers, *own_headers(request, content, repeated=budget.tries > 0)],
            stream=httpx.ByteStream(content),
            extensions={"timeout": dict.fromkeys(_TIMEOUTS, within)},
        )

    def refuse_others(self, what: str, *handles: Any) -> None:
        """Raises ``BadInput`` for a handle of another service or namespace."""
        for handle in handles:
            if getattr(handle.engine.config, "service", None) != self.service:
                raise BadInput(f"{what}: {handle.name} is not of this service and namespace; give its name.")

    @property
    def address(self) -> ServiceAddress:
        """The place of its handles: the service and the namespace."""
        return self.service

    def codec_for(self, kind: Any) -> BodyCodec[Any]:
        """The codec of a kind, with this client's limit."""
        return kind if isinstance(kind, BodyCodec) else BodyCodec(kind, self.max_body)

    def redisson_name(self, name: str) -> str:
        """Returns the name unchanged: the service maps names itself."""
        return name

    def queue_keys(self, name: str) -> keys.QueueKeys:
        """The keys of a queue by its name in Java. Raises ``BadInput`` for a name that is not allowed."""
        return keys_of(name, cluster=self.cluster)

    def verbs(self, topic: str, kind: Any = None, partitions: int | None = None) -> HTTPTopicVerbs[Any]:
        """The verbs of a topic."""
        context = TopicContext(topic, keys.topic_keys(self.namespace, topic), self.codec_for(kind), self._ids)
        return HTTPTopicVerbs(context, self.name, os.urandom, self._declared_partitions, partitions)

    def schedules(self) -> HTTPScheduleVerbs:
        return HTTPScheduleVerbs(self.verbs)

    def delayed(
        self, name: str, codec: Any, format: str | None, redisson: str | None = None
    ) -> HTTPDelayedQueueVerbs[Any]:
        version = redisson_of(redisson, self.redisson)
        return HTTPDelayedQueueVerbs(
            queue_context(name, codec, format, version, self.queue_keys, os.urandom), os.urandom
        )

    def blocking(self, name: str, codec: Any, redisson: str | None = None) -> HTTPBlockingQueueVerbs[Any]:
        version = redisson_of(redisson, self.redisson)
        return HTTPBlockingQueueVerbs(
            queue_context(name, codec, None, version, self.queue_keys, os.urandom, delayed=False), os.urandom
        )

    def guarded(
        self, name: str, guard: object, layout: str, kind: Any, max_lateness: Duration | None, on_late: object
    ) -> tuple[GuardedContext[Any], HTTPGuardedVerbs]:
        """Returns the queue's context, and its verbs as requests. Raises ``BadInput`` for invalid arguments."""
        if guard is not None:
            raise not_supported("guarded_queue.guard")
        context = guarded_context(self, name, layout, kind, max_lateness, on_late)
        return context, HTTPGuardedVerbs(with_late_policy(context, on_late), os.urandom)

    def map_cache(
        self, name: str, codec: Any, key_codec: Any, backend: Backend, redisson: str | None = None
    ) -> HTTPMapVerbs:
        """Looking at a map."""
        context = map_verbs(self, name, codec, key_codec, backend, redisson).context
        return HTTPMapVerbs(context, backend)

    def list_topics(self) -> HTTPRequest[list[str]]:
        return request_to(topics.NAMES)

    def list_workers(self) -> HTTPRequest[list[WorkerInfo]]:
        return request_to(topics.WORKERS)

    def set_worker_mode(self, worker: str, mode: WorkerMode) -> HTTPRequest[bool]:
        check_mode(mode)
        return request_to(topics.WORKER_MODE, worker, body=topic_models.SetWorkerMode(mode))

    @property
    def redacted(self) -> str:
        """The address, safe to log."""
        return f"{self.service.namespace or 'the first namespace'} at {self.service.redacted}"

    def library(self) -> Any:
        """The library underneath. Raises ``MissingExtra`` where it is not installed."""
        try:
            import httpx
        except ImportError:
            raise MissingExtra(MISSING_EXTRA) from None
        return httpx

    def limits(self) -> httpx.Limits:
        import httpx

        return httpx.Limits(max_connections=UNLIMITED_CONNECTIONS, max_keepalive_connections=100, keepalive_expiry=30)


def pop_requests(
    chosen: Sequence[HTTPTopicVerbs[Any]], limit: int, seconds: float, ttr: Duration | None
) -> Iterator[HTTPRequest[list[answers.PoppedJob]]]:
    """Returns the jobs. One request for each minute of the wait.

    The wait that the service was asked for is counted, not the time of this process.
    """
    max_jobs, holder = pop.checked_limit(limit), chosen[0].holder
    pop.ttr_of(ttr)
    while True:
        wait = min(seconds, LONGEST_WAIT_S)
        body = models.PopFromAny(
            topics=[topic.context.name for topic in chosen],
            limit=max_jobs,
            wait=f"{round(wait * SECOND)}us",
            ttr=optional_span(ttr),
            holder=holder.decode(),
        )
        yield request_to(jobs.POP_FROM_ANY, body=body, wait=wait)
        seconds -= wait
        if seconds <= 0:
            return
