"""The verbs of shared queues as requests to a service: the names and options of ``DelayedQueueVerbs`` and ``BlockingQueueVerbs``.

Payloads are sent: values are encoded and decoded here, by any codec, also a custom one. An offer carries a
key, of which the service makes the marks of its elements: when it is sent again after a lost answer, its elements are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, ask, request_to
from tarry.clients.http.verbs.request_fields import (
    new_idempotency_key,
    run_in_order,
    span_text,
    split,
)
from tarry.values.durations import Duration
from tarry.verbs.redisson.delayed.elements import READ_PAGE, checked_limit
from tarry.verbs.redisson.delayed.queue_context import DecodedPayloads, QueueContext
from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement
from tarry.verbs.redisson.elements import format_of
from tarry.wire.endpoint import Endpoint
from tarry.wire.redisson import queue_answers, queue_models
from tarry.wire.redisson import queue_endpoints as queues
from tarry.wire.redisson.queue_answers import payloads
from tarry.wire.schemas import base64_text

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

    def poison_elements(self) -> HTTPRequest[list[PoisonElement]]:
        return self.request(queues.POISON)

    def stats(self) -> HTTPRequest[QueueStats]:
        return self.request(queues.STATS)

    def add_poison(self, undecodable: Iterable[tuple[bytes, str]]) -> HTTPFlow[Any]:
        elements = [queue_models.Unread(base64_text(raw), reason[:10_000]) for raw, reason in undecodable]
        for part in split(elements):
            yield from ask(self.request(queues.ADD_POISON, body=queue_models.AddPoison(list(part))))

    def _decode_taken(self, values: Sequence[bytes]) -> HTTPFlow[list[T]]:
        """The values of payloads that were taken; those that cannot be read are set aside."""
        taken: DecodedPayloads = self.context.decode_all(values)
        if taken.undecodable:
            yield from self.add_poison(taken.undecodable)
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
            there = yield from ask(self.request(queues.CONTAINS, body=make_body(list(part))))
            if not there:
                return False
        return True

    def request(self, endpoint: Endpoint[S], *, body: Any = None, **options: Any) -> HTTPRequest[S]:
        """A request about this queue."""
        return request_to(endpoint, self.context.name, body=body, **options)

    def _take_request(self, endpoint: Endpoint[queue_answers.Elements], body: Any) -> HTTPRequest[list[bytes]]:
        """Takes elements."""
        return self.request(endpoint, body=body).then(lambda found: payloads(found.values))

    def _first(self, found: queue_answers.Elements) -> Any:
        return self.context.decode_or_opaque(payloads(found.values)[0]) if found.values else None


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
        requests = []
        for part in parts:
            body = queue_models.Offer(part, span, "bytes", self.context.format)
            requests.append(self.request(queues.OFFER, body=body, key=new_idempotency_key(self._random)))
        return requests

    def poll(self, limit: int) -> HTTPFlow[list[T]]:
        self.context.require_codec()
        return self._decode_some(
            self._take_request(queues.POLL, queue_models.PollQueue(limit=checked_limit(limit), **BYTES_CODEC))
        )

    def pass_on(self, target: str) -> HTTPRequest[T | None]:
        self.context.keys_of(target)
        body = queue_models.PassOn(to=target, **BYTES_CODEC)
        return self.request(queues.PASS_ON, body=body).then(self._first)

    def remove(self, value: T) -> HTTPFlow[bool]:
        body = queue_models.Remove(values=[base64_text(self.context.encode(value))], **BYTES_CODEC)
        return self._log_if_missed([value], ask(self.request(queues.REMOVE, body=body)))

    def remove_all(self, values: Iterable[T]) -> HTTPFlow[bool]:
        values = list(values)
        return self._log_if_missed(values, self._all_removed(list(dict.fromkeys(map(self.context.encode, values)))))

    def _all_removed(self, encoded: list[bytes]) -> HTTPFlow[bool]:
        gone = False
        for part in split([base64_text(payload) for payload in encoded], MOST):
            body = queue_models.Remove(values=list(part), all=True, **BYTES_CODEC)
            gone = (yield from ask(self.request(queues.REMOVE, body=body))) or gone
        return gone

    def retain_all(self, values: Iterable[T]) -> HTTPRequest[bool]:
        encoded = [base64_text(self.context.encode(value)) for value in values]
        return self.request(queues.RETAIN, body=queue_models.QueueValues(values=encoded, **BYTES_CODEC))

    def contains_all(self, values: Iterable[T]) -> HTTPFlow[bool]:
        return self._contains(values, ready=False)

    def peek(self) -> HTTPFlow[T | None]:
        return _first_of(self)

    def page(self, position: int, limit: int = READ_PAGE) -> HTTPRequest[tuple[list[T], int]]:
        query = {**BYTES_CODEC, "limit": str(limit), "start": str(position)}
        shown = self.request(queues.LIST_ELEMENTS, query=query)
        return shown.then(lambda found: (self._decode_seen(found.values), found.next or 0))

    def _decode_seen(self, values: list[str]) -> list[Any]:
        return [self.context.decode_or_opaque(payload) for payload in payloads(values)]

    def read_all(self) -> HTTPFlow[list[T]]:
        values, position = yield from ask(self.page(0))
        while position:
            more, position = yield from ask(self.page(position))
            values += more
        return values

    def size(self) -> HTTPRequest[int]:
        return self.request(queues.SIZE).then(lambda found: found.delayed)

    def set_format(self, format: str | None) -> HTTPRequest[None]:
        body = queue_models.SetFormat(None if format is None else format_of(format))
        return self.request(queues.SET_FORMAT, body=body)

    def clear(self) -> HTTPRequest[bool]:
        return self.request(queues.CLEAR)


class HTTPBlockingQueueVerbs(HTTPQueueVerbs[T]):
    """Elements that may be taken."""

    def put(self, value: T) -> HTTPRequest[None]:
        body = queue_models.Put([base64_text(self.context.encode(value))], "bytes")
        return self.request(queues.PUT, body=body)

    def poll(self, limit: int) -> HTTPFlow[list[T]]:
        self.context.require_codec()
        return self._decode_some(
            self._take_request(queues.TAKE, queue_models.Take(limit=checked_limit(limit), **BYTES_CODEC))
        )

    def read(self, payload: bytes) -> HTTPFlow[list[T]]:
        return self._decode_taken([payload])

    def peek(self) -> HTTPRequest[T | None]:
        return self.request(queues.PEEK, query=BYTES_CODEC).then(self._first)

    def contains(self, value: T) -> HTTPFlow[bool]:
        return self._contains([value], ready=True)

    def size(self) -> HTTPRequest[int]:
        return self.request(queues.SIZE).then(lambda found: found.ready)

    def for_queue(self, name: str) -> HTTPBlockingQueueVerbs[T]:
        return HTTPBlockingQueueVerbs(self.context.for_queue(name), self._random)


def take_from_any(names: Sequence[str], seconds: float) -> HTTPRequest[tuple[str | None, list[bytes]]]:
    """The first element of any of them."""
    body = queue_models.TakeFromAny(queues=list(names), limit=1, wait=f"{round(seconds * 1_000_000)}us", codec="bytes")
    taken = request_to(queues.TAKE_FROM_ANY, body=body, wait=seconds)
    return taken.then(lambda found: (found.queue, payloads(found.values)))


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
