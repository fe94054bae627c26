"""What leaves together: requests of one turn of the loop, those of one kind as one script.

errands   add a ── add b ── pop ── finish c ── add d
parcels   add a, b, d ── pop ── finish c                 each one command on the wire
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.clients.answers import merged, refuse_forbidden
from tarry.connections.faults import ServerRefused
from tarry.core.patience import RetryBudget
from tarry.core.requests import Command

MOST_ITEMS, MOST_BYTES = 1000, 1_000_000
"""One script takes no more."""


class Errand:
    """A request on its way, and who waits for it."""

    __slots__ = ("begun", "future", "once", "request")

    def __init__(self, request: Any, future: asyncio.Future[Any], budget: RetryBudget, *, once: bool = False) -> None:
        self.request = request
        self.future = future
        self.once = once  #: a fault is told at once, not tried again
        self.begun = budget


class Parcel:
    """One command on the wire: one request, or several of one kind."""

    __slots__ = ("errands", "items", "request", "size", "spelled")

    def __init__(self, errand: Errand, items: int = 0, size: int = 0) -> None:
        self.errands = [errand]
        self.request = errand.request
        self.items = items
        self.size = size
        self.spelled = False


def packed(errands: list[Errand]) -> list[Parcel]:
    """Calls of one kind as one, as far as one script may go; the rest as they are, in order."""
    parcels: list[Parcel] = []
    kinds: dict[Any, Parcel] = {}
    for errand in errands:
        request = errand.request
        if isinstance(request, Command) or request.never_merged or not request.items:
            parcels.append(Parcel(errand))
            continue
        kind = (request.script, request.keys, request.args)
        items, size = len(request.items) // request.script.stride, sum(map(len, request.items))
        parcel = kinds.get(kind)
        if parcel is None or parcel.items + items > MOST_ITEMS or parcel.size + size > MOST_BYTES:
            parcel = kinds[kind] = Parcel(errand, items, size)
            parcels.append(parcel)
        else:
            parcel.errands.append(errand)
            parcel.items += items
            parcel.size += size
    for parcel in parcels:
        if len(parcel.errands) > 1:
            parcel.request = merged([errand.request for errand in parcel.errands])
    return parcels


def fail(future: asyncio.Future[Any], fault: BaseException) -> None:
    """Tells who waits, if anybody still does."""
    if not future.done():
        future.set_exception(fault)


def allowed(forbidden: frozenset[bytes], parcels: list[Parcel]) -> list[Parcel]:
    """Those that the user may send; who waits for one of the others is told."""
    left: list[Parcel] = []
    for parcel in parcels:
        try:
            refuse_forbidden(forbidden, parcel.request)
        except ServerRefused as no:
            for errand in parcel.errands:
                fail(errand.future, no.error)
        else:
            left.append(parcel)
    return left
