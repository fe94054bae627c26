"""The verbs of shared queues as requests to a service: the names and options of ``DelayedQueueVerbs`` and ``BlockingQueueVerbs``.

Payloads are sent: values are encoded and decoded here, by any codec, also a custom one. An offer carries a
key, of which the service makes the marks of its elements: when it is sent again after a lost answer, its elements are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, ask
from tarry.clients.http.verbs.fields import (
    new_idempotency_key,
    read_nothing,
    reader,
    run_in_order,
    segment,
    span_text,
    split,
)
from tarry.clients.http.wire import queue_answers, queue_models
from tarry.clients.http.wire.queue_answers import payloads
from tarry.clients.http.wire.schemas import base64_text
from tarry.values.durations import Duration
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext
from tarry.verbs.delayed.elements import READ_PAGE, checked_count
from tarry.verbs.delayed.stats import QueueStats
from tarry.verbs.delayed.transfer import SetAside
from tarry.verbs.redisson.elements import format_of

T = TypeVar("T")
S = TypeVar("S")
MOST, MOST_BYTES = 10_000, 4_000_000
"""The most elements of one request. Among those of one request with one due time the order of offers holds."""
BYTES_CODEC: dict[str, Any] = {"codec": "bytes"}


class HTTPQueueVerbs(Generic[T]):
    """The common verbs of both kinds of queues."""

    def __init__(self, context: QueueContext[T], random: Callable[[int], bytes]) -> None:
        self.context = context
        self.keys = context.keys
        self._random = random
        self._path = f"/v1/queues/{segment(context.name)}"

    def set_aside_elements(self) -> HTTPRequest[list[SetAside]]:
        return self.request("GET", "/poison", queue_answers.POISON.decode)

    def stats(self) -> HTTPRequest[QueueStats]:
        return self.request("GET", "/stats", queue_answers.QUEUE_STATS.decode)

    def set_aside(self, undecodable: Iterable[tuple[bytes, str]]) -> HTTPFlow[Any]:
        elements = [queue_models.Unread(base64_text(raw), reason[:10_000]) for raw, reason in undecodable]
        for part in split(elements):
            yield from ask(self.request("POST", "/aside", read_nothing, queue_models.Aside(list(part))))

    def _decode_taken(self, values: Sequence[bytes]) -> HTTPFlow[list[T]]:
        """The values of payloads that were taken; those that cannot be read are set aside."""
        taken: DecodedPayloads = self.context.decode_all(values)
        if taken.undecodable:
            yield from self.set_aside(taken.undecodable)
        return taken.values

    def _decode_some(self, take: HTTPRequest[list[bytes]]) -> HTTPFlow[list[T]]:
        while True:
            found = yield from ask(take)
            values = yield from self._decode_taken(found)
            if values or not found:
                return values

    def _contains(self, values: Iterable[T], *, ready: bool) -> HTTPFlow[bool]:
        values = list(values)
        encoded = {self.context.encode(value) for value in values}
        search = self._each(encoded, lambda part: queue_models.Contains(values=part, ready=ready, **BYTES_CODEC))
        return self._log_if_missed(values, search)

    def _log_if_missed(self, values: Sequence[T], search: HTTPFlow[bool]) -> HTTPFlow[bool]:
        return self.context.found((yield from search), values)

    def _each(self, encoded: Iterable[bytes], make_body: Callable[[list[str]], Any]) -> HTTPFlow[bool]:
        for part in split([base64_text(payload) for payload in encoded], MOST):
            found = yield from ask(
                self.request("POST", "/contains", queue_answers.CONTAINED.decode, make_body(list(part)))
            )
            if not found:
                return False
        return True

    def request(
        self, method: str, path: str, read: Callable[[bytes], S], body: Any = None, **options: Any
    ) -> HTTPRequest[S]:
        """A request about this queue."""
        return HTTPRequest(method, self._path + path, read, body, **options)

    def _model_request(
        self, method: str, path: str, model: type[S], read: Callable[[S], Any], body: Any = None
    ) -> HTTPRequest[Any]:
        return self.request(method, path, reader(model, read), body)

    def _take_request(self, path: str, body: Any) -> HTTPRequest[list[bytes]]:
        """Takes elements."""
        return self._model_request("POST", path, queue_answers.Elements, lambda found: payloads(found.values), body)


class HTTPDelayedQueueVerbs(HTTPQueueVerbs[T]):
    """Elements that are not due yet."""

    def offer(self, value: T, delay: Duration) -> HTTPFlow[datetime]:
        offers = self._offers([self.context.encode(value)], delay)
        return _only(offers)

    def offer_many(self, values: Iterable[T], delay: Duration) -> HTTPFlow[list[datetime]]:
        """All are encoded before the first is sent."""
        return run_in_order(self._offers([self.context.encode(value) for value in values], delay))

    def _offers(self, encoded: list[bytes], delay: Duration) -> list[HTTPRequest[list[datetime]]]:
        span, parts, size = span_text(delay), list[list[str]](), 0
        for payload in encoded:
            if not parts or len(parts[-1]) == MOST or size + len(payload) > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(base64_text(payload))
            size += len(payload)
        read = queue_answers.OFFERED.decode
        requests = []
        for part in parts:
            body = queue_models.Offer(part, span, "bytes", self.context.format)
            requests.append(self.request("POST", "/offer", read, body, key=new_idempotency_key(self._random)))
        return requests

    def poll(self, n: int) -> HTTPFlow[list[T]]:
        return self._decode_some(self._take_request("/poll", queue_models.PollQueue(n=checked_count(n), **BYTES_CODEC)))

    def pass_on(self, target: str) -> HTTPRequest[T | None]:
        self.context.keys_of(target)
        body = queue_models.PassOn(to=target, **BYTES_CODEC)
        return self._model_request("POST", "/pass-on", queue_answers.Elements, self._first, body)

    def _first(self, found: queue_answers.Elements) -> Any:
        return self.context.decode_or_opaque(payloads(found.values)[0]) if found.values else None

    def remove(self, value: T) -> HTTPFlow[bool]:
        body = queue_models.Remove(values=[base64_text(self.context.encode(value))], **BYTES_CODEC)
        return self._log_if_missed([value], ask(self._removed("/remove", body)))

    def remove_all(self, values: Iterable[T]) -> HTTPFlow[bool]:
        values = list(values)
        return self._log_if_missed(values, self._all_removed(list(dict.fromkeys(map(self.context.encode, values)))))

    def _all_removed(self, encoded: list[bytes]) -> HTTPFlow[bool]:
        gone = False
        for part in split([base64_text(payload) for payload in encoded], MOST):
            body = queue_models.Remove(values=list(part), all=True, **BYTES_CODEC)
            gone = (yield from ask(self._removed("/remove", body))) or gone
        return gone

    def retain_all(self, values: Iterable[T]) -> HTTPRequest[bool]:
        encoded = [base64_text(self.context.encode(value)) for value in values]
        return self._removed("/retain", queue_models.QueueValues(values=encoded, **BYTES_CODEC))

    def _removed(self, path: str, body: Any) -> HTTPRequest[bool]:
        return self.request("POST", path, queue_answers.CHANGED.decode, body)

    def contains_all(self, values: Iterable[T]) -> HTTPFlow[bool]:
        return self._contains(values, ready=False)

    def peek(self) -> HTTPFlow[T | None]:
        return _first_of(self)

    def page(self, position: int, limit: int = READ_PAGE) -> HTTPRequest[tuple[list[T], int]]:
        read = reader(queue_answers.Elements, lambda found: (self._decode_seen(found.values), found.next or 0))
        query = {**BYTES_CODEC, "limit": str(limit), "start": str(position)}
        return self.request("GET", "/elements", read, query=query)

    def _decode_seen(self, values: list[str]) -> list[Any]:
        return [self.context.decode_or_opaque(payload) for payload in payloads(values)]

    def read_all(self) -> HTTPFlow[list[T]]:
        values, position = yield from ask(self.page(0))
        while position:
            more, position = yield from ask(self.page(position))
            values += more
        return values

    def size(self) -> HTTPRequest[int]:
        return self._model_request("GET", "", queue_answers.QueueSize, lambda found: found.delayed)

    def set_format(self, format: str | None) -> HTTPRequest[None]:
        body = queue_models.SetFormat(None if format is None else format_of(format))
        return self.request("POST", "/format", read_nothing, body)

    def clear(self) -> HTTPRequest[bool]:
        return self._removed("/clear", None)


class HTTPBlockingQueueVerbs(HTTPQueueVerbs[T]):
    """Elements that may be taken."""

    def put(self, value: T) -> HTTPRequest[None]:
        body = queue_models.Put([base64_text(self.context.encode(value))], "bytes")
        return self.request("POST", "/put", read_nothing, body)

    def poll(self, n: int) -> HTTPFlow[list[T]]:
        return self._decode_some(self._take_request("/take", queue_models.Take(n=checked_count(n), **BYTES_CODEC)))

    def read(self, payload: bytes) -> HTTPFlow[list[T]]:
        return self._decode_taken([payload])

    def peek(self) -> HTTPRequest[T | None]:
        def first(found: queue_answers.Elements) -> Any:
            return self.context.decode_or_opaque(payloads(found.values)[0]) if found.values else None

        return self.request("GET", "/peek", reader(queue_answers.Elements, first), query=BYTES_CODEC)

    def contains(self, value: T) -> HTTPFlow[bool]:
        return self._contains([value], ready=True)

    def size(self) -> HTTPRequest[int]:
        return self._model_request("GET", "", queue_answers.QueueSize, lambda found: found.ready)

    def for_queue(self, name: str) -> HTTPBlockingQueueVerbs[T]:
        return HTTPBlockingQueueVerbs(self.context.for_queue(name), self._random)


def take_from_any(queues: Sequence[str], seconds: float) -> HTTPRequest[tuple[str | None, list[bytes]]]:
    """The first element of any of them."""
    body = queue_models.TakeFromAny(queues=list(queues), n=1, wait=f"{round(seconds * 1_000_000)}us", codec="bytes")
    read = reader(queue_answers.TakenElements, lambda found: (found.queue, payloads(found.values)))
    return HTTPRequest("POST", "/v1/take", read, body, wait=seconds)


def _only(requests: Sequence[HTTPRequest[list[datetime]]]) -> HTTPFlow[datetime]:
    found = yield from ask(requests[0])
    return found[0]


def _first_of(verbs: HTTPDelayedQueueVerbs[T]) -> HTTPFlow[T | None]:
    """The first that can be read."""
    position, limit = 0, 1
    while True:
        values, position = yield from ask(verbs.page(position, limit))
        if values:
            return values[0]
        if not position:
            return None
        limit = READ_PAGE
