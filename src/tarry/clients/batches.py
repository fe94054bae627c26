"""Requests that are sent together: to all servers at the same time, to each in portions.

server A   ▇ ──answer──▶ ▇ ──answer──▶ ▇        a portion: what one script may take, so other clients wait no longer for it
server B   ▇ ──answer──▶ ▇                      a server that is given up gets no more of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tarry.clients.deliveries import Delivery
from tarry.clients.portions import GIVEN_UP, is_silent, portions_of
from tarry.core.patience import RetryBudget
from tarry.core.requests import Request
from tarry.errors import TarryError


class Portions:
    """One exchange of requests; each is asked once, or with patience."""

    def __init__(
        self, requests: Sequence[Request], budget: RetryBudget, result: Callable[[], Any], *, once: bool
    ) -> None:
        self._requests = requests
        self._budget = budget
        self._result = result
        self._once = once
        self.answers: list[Any] = [None] * len(requests)

    def chains(self, urls: Sequence[str]) -> list[Iterator[list[Delivery]]]:
        """For each server the portions. The next portion is asked for when the last one is answered."""
        return [self._chain(chunks) for chunks in portions_of(self._requests, urls).values()]

    def _chain(self, chunks: Sequence[Sequence[int]]) -> Iterator[list[Delivery]]:
        given_up: Any = None
        for number, chunk in enumerate(chunks):
            if given_up is None:
                deliveries = [self._delivery(at, first=not number) for at in chunk]
                yield deliveries
                found = [delivery.result.exception() or delivery.result.result() for delivery in deliveries]
                if is_silent(found, retries=not self._once):
                    given_up = next(answer for answer in found if isinstance(answer, GIVEN_UP))
            else:
                found = [given_up] * len(chunk)
            for at, answer in zip(chunk, found, strict=True):
                self.answers[at] = answer

    def _delivery(self, at: int, *, first: bool) -> Delivery:
        """The first portion has waited for the connection already; each request counts its own tries."""
        return Delivery(self._requests[at], self._budget.sibling(restarted=not first), self._result(), once=self._once)


def checked(answers: list[Any]) -> list[Any]:
    """The answers, if all errors among them are the server's."""
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, TarryError):
            raise answer
    return answers
