"""Requests that are sent together: to all servers at the same time, to each in portions.

A portion is enqueued in one turn of the loop and sent in one pipeline. A cancelled caller sends no further portions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tarry.clients.awaited.merged_requests import PendingRequest
from tarry.clients.chunks import chunked, is_silent
from tarry.core.patience import RetryBudget
from tarry.core.requests import Request
from tarry.errors import Unavailable


class Pipelines:
    """One exchange of requests; each is asked once, or with patience."""

    def __init__(
        self,
        enqueue: Callable[[PendingRequest], None],
        requests: Sequence[Request],
        budget: RetryBudget,
        *,
        retries: bool,
    ) -> None:
        self._enqueue = enqueue
        self._requests = requests
        self._budget = budget
        self._retries = retries
        self._answers: dict[int, Any] = {}

    async def exchange(self, urls: Sequence[str]) -> list[Any]:
        """Returns the value or the error of each request. ``urls`` has the server of each."""
        by_place = chunked(self._requests, urls)
        await asyncio.gather(*[self._send_chunks(chunks) for chunks in by_place.values()])
        return [self._answers[at] for at in range(len(self._requests))]

    async def _send_chunks(self, chunks: Sequence[Sequence[int]]) -> None:
        """Sends the portions of one server, each after the answer to the last one; none after the server was given up."""
        fault: Unavailable | None = None
        for chunk in chunks:
            if fault is not None:
                self._answers.update(dict.fromkeys(chunk, fault))
                continue
            futures = [self._send_chunk(at, first=chunk is chunks[0]) for at in chunk]
            answers = await asyncio.gather(*futures, return_exceptions=True)
            self._answers.update(zip(chunk, answers, strict=True))
            if is_silent(answers, retries=self._retries):
                fault = next(answer for answer in answers if isinstance(answer, Unavailable))

    def _send_chunk(self, at: int, *, first: bool) -> asyncio.Future[Any]:
        """The first portion has waited for the connection already; each request counts its own tries."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        budget = self._budget.sibling(restarted=not first)
        self._enqueue(PendingRequest(self._requests[at], future, budget, try_once=not self._retries))
        return future
