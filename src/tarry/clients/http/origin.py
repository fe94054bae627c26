"""What a client of a service is before it talks, and the requests that are no topic's verbs. The same for both worlds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tarry.clients.http import answers, models, topic_answers
from tarry.clients.http.asking import MISSING, Ask, Place
from tarry.clients.http.reading import taken
from tarry.clients.http.verbs import HTTPVerbs, span_of
from tarry.clients.origin import LARGEST_BODY
from tarry.errors import BadInput, ServerUnfit
from tarry.idea.patience import Patience
from tarry.verbs.codecs import Bodies
from tarry.verbs.jobs import taking
from tarry.verbs.jobs.face import TopicVerbs
from tarry.verbs.jobs.routing import RoutedVerbs
from tarry.verbs.jobs.topic import TopicDesk
from tarry.verbs.workers import WorkerInfo
from tarry.words import keys, names
from tarry.words.durations import SECOND, Duration, microseconds

if TYPE_CHECKING:
    import httpx

NO_POOL = 10_000
"""Connections at once: a waiting pop holds one, and must not keep a verb from being sent."""


class HTTPOrigin:
    """Checked settings; makes the verbs of a topic. Raises ``BadInput`` in words."""

    def __init__(self, place: Place, max_body: int, patience: Duration) -> None:
        if not isinstance(max_body, int) or isinstance(max_body, bool) or not 1 <= max_body <= LARGEST_BODY:
            raise BadInput(f"max_body: {max_body!r}; it is a number of bytes, at most 512 MiB.")
        self.place = place
        self.patience = Patience(microseconds(patience, "patience") / SECOND)
        self.name = names.word(os.urandom)
        self._max_body = max_body
        self._ids = names.Ids(lambda: time.time_ns() // 1_000_000, os.urandom)

    def verbs(self, topic: str, kind: Any) -> RoutedVerbs[Any]:
        """The verbs of a topic. They have the names and options of ``TopicVerbs``; tests/clients holds them to it."""
        bodies = kind if isinstance(kind, Bodies) else Bodies(kind, self._max_body)
        desk = TopicDesk(topic, keys.topic_keys(self.place.namespace or "default", topic), bodies, self._ids)
        return cast("RoutedVerbs[Any]", HTTPVerbs(TopicVerbs(desk, self.name, random.random), os.urandom))

    def library(self) -> Any:
        """The library underneath. Raises ``ServerUnfit`` where it is not installed."""
        try:
            import httpx
        except ImportError:
            raise ServerUnfit(MISSING) from None
        return httpx

    def limits(self) -> httpx.Limits:
        import httpx

        return httpx.Limits(max_connections=NO_POOL, max_keepalive_connections=100, keepalive_expiry=30)


def topics() -> Ask[list[str]]:
    decode = msgspec.json.Decoder(topic_answers.TopicNames).decode
    return Ask("GET", "/v1/topics", lambda body: decode(body).topics)


def workers() -> Ask[list[WorkerInfo]]:
    decode = msgspec.json.Decoder(topic_answers.Workers).decode
    return Ask("GET", "/v1/workers", lambda body: decode(body).workers)


def pops(
    holder: bytes, topics: Sequence[str], n: int, seconds: float, ttr: Duration | None
) -> Iterator[Ask[tuple[taking.Taken, list[str]]]]:
    """One request for each minute of the wait. What is counted is what the service was asked to wait: its clock, not ours."""
    want = taking.want_of(n)
    taking.ttr_of(ttr)
    while True:
        wait = min(seconds, models.MOST_WAIT_S)
        said = models.PopFromAny(
            topics=list(topics),
            n=want,
            wait=f"{round(wait * SECOND)}us",
            ttr=span_of(ttr),
            holder=holder.decode(),
        )
        yield Ask("POST", "/v1/pop", _popped, said, wait=wait)
        seconds -= wait
        if seconds <= 0:
            return


_decode = msgspec.json.Decoder(answers.PoppedJobs).decode


def _popped(body: bytes) -> tuple[taking.Taken, list[str]]:
    found = _decode(body)
    return taken(found), [job.topic for job in found.jobs]
