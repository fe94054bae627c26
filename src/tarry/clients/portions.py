"""Requests that are sent together, in portions: a portion goes to one server in one pipeline.

a portion is no more work for a server than one script may be, so other clients wait no longer for it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tarry.core.requests import MOST_BYTES, MOST_ITEMS, Request, ScriptCall
from tarry.errors import Unavailable, Unconfirmed

MOST_REQUESTS = 64
GIVEN_UP = (Unavailable, Unconfirmed)
"""The errors after which a server gets no more of the requests: each of them would take as long."""


def portions_of(requests: Sequence[Request], urls: Sequence[str]) -> dict[str, list[list[int]]]:
    """Returns for each server its portions in order. A portion is the numbers of its requests."""
    found: dict[str, list[list[int]]] = {}
    spent: dict[str, tuple[int, int]] = {}
    for at, (request, place) in enumerate(zip(requests, urls, strict=True)):
        jobs, size = _cost(request)
        chunks = found.setdefault(place, [])
        before, bytes_before = spent.get(place, (MOST_ITEMS, MOST_BYTES))
        if before + jobs > MOST_ITEMS or bytes_before + size > MOST_BYTES or len(chunks[-1]) == MOST_REQUESTS:
            chunks.append([])
            before, bytes_before = 0, 0
        chunks[-1].append(at)
        spent[place] = before + jobs, bytes_before + size
    return found


def _cost(request: Request) -> tuple[int, int]:
    """The number of jobs that the request may concern, at least one, and its bytes."""
    if not isinstance(request, ScriptCall):
        return 1, sum(map(len, request.args))
    script = request.script
    steps = int(request.args[script.limit_index]) if script.limit_index is not None else 0
    jobs = len(request.items) // script.stride if script.stride else 0
    return max(steps, jobs, 1), sum(map(len, request.items))


def is_silent(answers: Sequence[Any], *, retries: bool) -> bool:
    """Whether a server is given up: its other requests are not sent. Without retries this needs that no request was
    answered, because a single error may come from a slot that moves."""
    unavailable = [isinstance(answer, GIVEN_UP) for answer in answers]
    return any(unavailable) if retries else all(unavailable)
