"""Merges the requests of one turn of the loop: those of one kind become one script.

pending requests   add a ── add b ── pop ── finish c ── add d
merged requests    add a, b, d ── pop ── finish c                 each is one command on the wire
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.clients.replies import merge_calls, refuse_forbidden
from tarry.connections.faults import Fault, ServerRefused
from tarry.core.patience import RetryBudget
from tarry.core.requests import Command

MOST_ITEMS, MOST_BYTES = 1000, 1_000_000
"""The most that one script takes."""


class PendingRequest:
    """A request that is not answered yet, and the future of its caller."""

    __slots__ = ("budget", "fault", "future", "request", "try_once")

    def __init__(
        self, request: Any, future: asyncio.Future[Any], budget: RetryBudget, *, try_once: bool = False
    ) -> None:
        self.request = request
        self.future = future
        self.try_once = try_once  #: the caller gets a fault at once, without a retry
        self.budget = budget
        self.fault: Fault | None = None  #: why its last try failed


class MergedRequest:
    """One command on the wire: one request, or several of one kind."""

    __slots__ = ("items", "pending", "request", "size", "with_source")

    def __init__(self, pending: PendingRequest, items: int = 0, size: int = 0) -> None:
        self.pending = [pending]
        self.request = pending.request
        self.items = items
        self.size = size
        self.with_source = False


def merge_pending(all_pending: list[PendingRequest]) -> list[MergedRequest]:
    """Merges calls of one kind, up to the limits of one script. Returns the other requests unchanged, in order."""
    if len(all_pending) == 1:
        return [MergedRequest(all_pending[0])]
    merged_requests: list[MergedRequest] = []
    kinds: dict[Any, MergedRequest] = {}
    for pending in all_pending:
        request = pending.request
        if isinstance(request, Command) or request.never_merged or not request.items:
            merged_requests.append(MergedRequest(pending))
            continue
        kind = (request.script, request.keys, request.args)
        items, size = len(request.items) // request.script.stride, sum(map(len, request.items))
        merged_request = kinds.get(kind)
        if (
            merged_request is None
            or merged_request.items + items > MOST_ITEMS
            or merged_request.size + size > MOST_BYTES
        ):
            merged_request = kinds[kind] = MergedRequest(pending, items, size)
            merged_requests.append(merged_request)
        else:
            merged_request.pending.append(pending)
            merged_request.items += items
            merged_request.size += size
    for merged_request in merged_requests:
        if len(merged_request.pending) > 1:
            merged_request.request = merge_calls([pending.request for pending in merged_request.pending])
    return merged_requests


def fail(future: asyncio.Future[Any], fault: BaseException) -> None:
    """Gives an error to the caller, if it still waits."""
    if not future.done():
        future.set_exception(fault)


def keep_allowed(forbidden: frozenset[bytes], merged_requests: list[MergedRequest]) -> list[MergedRequest]:
    """Returns the requests that the Redis user may send. The callers of the others get the error."""
    left: list[MergedRequest] = []
    for merged_request in merged_requests:
        try:
            refuse_forbidden(forbidden, merged_request.request)
        except ServerRefused as no:
            for pending in merged_request.pending:
                fail(pending.future, no.error)
        else:
            left.append(merged_request)
    return left
