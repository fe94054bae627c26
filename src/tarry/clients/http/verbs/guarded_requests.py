"""A guarded queue's verbs as requests to a service. Values are encoded and decoded here.

A push carries a key, of which the service makes the marks of its items: when it is sent again after a lost answer, its items are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, request_to
from tarry.clients.http.verbs.request_fields import encoded_body_fields, new_idempotency_key, run_in_order
from tarry.values.durations import SECOND, Duration
from tarry.verbs.guarded.guarded_context import GuardedContext, GuardedItem, GuardedStats, checked_limit
from tarry.wire.endpoints import guarded_endpoints as guarded
from tarry.wire.types import LONGEST_WAIT_S

MOST, MOST_BYTES = 10_000, 4_000_000
"""The most items of one request."""


class HTTPGuardedVerbs:
    """The verbs of one queue."""

    def __init__(self, context: GuardedContext[Any], random: Callable[[int], bytes]) -> None:
        self.context = context
        self._random = random
        self._layout: Any = "java" if context.is_java else "tarry"

    def without_max_lateness(self) -> HTTPGuardedVerbs:
        """The same verbs without a limit of lateness."""
        return HTTPGuardedVerbs(replace(self.context, max_lateness_us=None), self._random)

    def push(self, given: Mapping[Any, Duration] | Iterable[tuple[Any, Duration]]) -> HTTPFlow[list[datetime]]:
        parts, size = list[list[guarded.Pushed]](), 0
        for raw, flag, delay in self.context.encoded(given):
            if not parts or len(parts[-1]) == MOST or size + len(raw) > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(guarded.Pushed(**encoded_body_fields(self.context.codec, raw, flag), delay=f"{delay}us"))
            size += len(raw)
        requests = []
        for part in parts:
            body = guarded.PushItems(items=part, layout=self._layout)
            key = new_idempotency_key(self._random)
            requests.append(request_to(guarded.PUSH, self.context.name, body=body, key=key))
        return run_in_order(requests)

    def poll_requests(self, limit: int, seconds: float) -> Iterator[HTTPRequest[list[GuardedItem[Any]]]]:
        """One request for each minute of the wait."""
        limit, bound = checked_limit(limit), self.context.max_lateness_us
        known = (self.context.codec,)
        while True:
            wait = min(seconds, LONGEST_WAIT_S)
            body = guarded.PollGuarded(
                limit=limit,
                wait=f"{round(wait * SECOND)}us",
                max_lateness=None if bound is None else f"{bound}us",
                layout=self._layout,
            )
            yield request_to(guarded.POLL, self.context.name, body=body, known=known, wait=wait)
            seconds -= wait
            if seconds <= 0:
                return

    def stats(self) -> HTTPRequest[GuardedStats]:
        return request_to(guarded.STATS, self.context.name, query={"layout": self._layout})

    def clear(self) -> HTTPRequest[bool]:
        body = guarded.ClearGuarded(self._layout)
        return request_to(guarded.CLEAR, self.context.name, body=body)
