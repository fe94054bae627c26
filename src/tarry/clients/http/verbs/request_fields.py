"""The common parts of a service's verbs: how they write spans, bodies and keys, and read answers."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, ask
from tarry.errors import JobExists, StaleReceipt, TopicFull, Unavailable, Unconfirmed
from tarry.values.durations import Duration, duration_us
from tarry.verbs.codecs import JSON, BodyCodec
from tarry.verbs.jobs.options import DURATIONS
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.verbs.jobs.settle import raise_refusals
from tarry.wire import bodies

S = TypeVar("S")


def span_text(span: Duration) -> str:
    """To the microsecond."""
    return f"{duration_us(span)}us"


def optional_span(span: Duration | None) -> str | None:
    """To the microsecond; ``None`` stays ``None``."""
    return None if span is None else span_text(span)


def spans_as_text(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a verb as fields of a request."""
    return {name: optional_span(value) if name in DURATIONS else value for name, value in options.items()}


def body_fields(codec: BodyCodec[Any], body: Any) -> dict[str, Any]:
    """The fields of a body, encoded here."""
    return encoded_body_fields(codec, *codec.encode(body))


def encoded_body_fields(codec: BodyCodec[Any], raw: bytes, flag: int) -> dict[str, Any]:
    """The fields of an encoded body. The output of a custom codec may be other bytes than JSON."""
    if flag == JSON and not codec.is_custom:
        return {"body": msgspec.Raw(raw)}
    return bodies.body_fields((raw, flag))


def new_idempotency_key(random: Callable[[int], bytes]) -> str:
    """An ``Idempotency-Key``."""
    return urlsafe_b64encode(random(18)).decode()


def split(items: Sequence[S], limit: int = MOST_JOBS) -> list[Sequence[S]]:
    """As many as one request takes."""
    return [items[at : at + limit] for at in range(0, len(items), limit)]


def run_in_order(requests: Sequence[HTTPRequest[list[S]]]) -> HTTPFlow[list[S]]:
    """Joins all answers; an error says how much was done before."""
    done: list[S] = []
    for request in requests:
        try:
            done += yield from ask(request)
        except (Unavailable, Unconfirmed, JobExists, TopicFull) as fault:
            fault.done += len(done)
            raise
    return done


def gather_requests(flows: Sequence[HTTPFlow[None]]) -> HTTPFlow[None]:
    """Performs all requests; then raises the first refusal, with the reasons of all."""
    refusals: list[StaleReceipt] = []
    for flow in flows:
        try:
            yield from flow
        except StaleReceipt as fault:
            refusals.append(fault)
    raise_refusals(refusals)
