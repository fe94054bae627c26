"""What leaves together: requests of one turn of the loop, those of one kind as one script.

errands   add a ── add b ── pop ── finish c ── add d
parcels   add a, b, d ── pop ── finish c                 each one command on the wire
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.clients.replies import merge_calls, refuse_forbidden
from tarry.connections.faults import ServerRefused
from tarry.core.patience import RetryBudget
from tarry.core.requests import Command

MOST_ITEMS, MOST_BYTES = 1000, 1_000_000
"""One script takes no more."""


class PendingRequest:
    """A request on its way, and who waits for it."""

    __slots__ = ("budget", "future", "request", "try_once")

    def __init__(
        self, request: Any, future: asyncio.Future[Any], budget: RetryBudget, *, try_once: bool = False
    ) -> None:
        self.request = request
        self.future = future
        self.try_once = try_once  #: a fault is told at once, not tried again
        self.budget = budget


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
    """Calls of one kind as one, as far as one script may go; the rest as they are, in order."""
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
    """Tells who waits, if anybody still does."""
    if not future.done():
        future.set_exception(fault)


def keep_allowed(forbidden: frozenset[bytes], merged_requests: list[MergedRequest]) -> list[MergedRequest]:
    """Those that the user may send; who waits for one of the others is told."""
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
