"""Requests that are asked together: all servers at the same time, each portion by portion.

Posted in one turn of the loop, a portion leaves in one pipeline; who stops waiting takes back what was not posted yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tarry.clients.aio.parcels import Errand
from tarry.clients.portions import is_silent, portioned
from tarry.core.patience import RetryBudget
from tarry.core.requests import Request
from tarry.errors import Unavailable


class Pipelines:
    """One exchange of requests; each is asked once, or with patience."""

    def __init__(
        self, post: Callable[[Errand], None], requests: Sequence[Request], budget: RetryBudget, *, patient: bool
    ) -> None:
        self._post = post
        self._requests = requests
        self._begun = budget
        self._patient = patient
        self._found: dict[int, Any] = {}

    async def exchange(self, places: Sequence[str]) -> list[Any]:
        """The value or the error of each; ``places`` says for each where it goes."""
        by_place = portioned(self._requests, places)
        await asyncio.gather(*[self._in_turn(portions) for portions in by_place.values()])
        return [self._found[at] for at in range(len(self._requests))]

    async def _in_turn(self, portions: Sequence[Sequence[int]]) -> None:
        """What one server is asked: no portion before the last one was answered, and none when it was given up."""
        fault: Unavailable | None = None
        for portion in portions:
            if fault is not None:
                self._found.update(dict.fromkeys(portion, fault))
                continue
            futures = [self._posted(at, first=portion is portions[0]) for at in portion]
            answers = await asyncio.gather(*futures, return_exceptions=True)
            self._found.update(zip(portion, answers, strict=True))
            if is_silent(answers, patient=self._patient):
                fault = next(answer for answer in answers if isinstance(answer, Unavailable))

    def _posted(self, at: int, *, first: bool) -> asyncio.Future[Any]:
        """What is posted first has waited for the way to be open; each counts its own tries."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        budget = self._begun.sibling(restarted=not first)
        self._post(Errand(self._requests[at], future, budget, once=not self._patient))
        return future
