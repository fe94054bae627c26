"""Moving very many elements: the client finds out their positions, so that no script has to search for them.

    order     e0 e1 e2 e3 e4 e5 …       read once, in pages: element → number
    gone      1 4 …                     numbers that were removed; an element's position is its number minus those before it

LREM compares from one end of the list; with mixed due times and a long list that costs a millisecond an
element. An element in the middle can be replaced in microseconds. So the mover passes the positions of the next due elements,
and the script removes all of them in one pass. It trusts the positions while the list's first element and the last one that
was read are unmoved: offers are appended, and any other change moves one of the two, for no element occurs twice. An offer that
is overdue already, by a clock that is late, moves the last due element, and is noticed by that. Changes by others meanwhile cost
another read, and never change what is moved.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import Any

from tarry.core.requests import Command, Flow, ask
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.transfer import MOST, NOBODY, Anchor, TransferResult, transfer

WORTH_POSITIONS = 200
"""With fewer left, searching costs less than reading the list."""
PAGE = 2000
MOST_STEP, LEAST_STEP, PASSED = 750, 100, 280
"""A script takes about 5 ms: 7 µs for an element, and as much for each 280 elements of the list."""
BUCKET = 256


def transfer_all(keys: QueueKeys, *, mover_id: bytes = NOBODY, keeps_seat: bool = False) -> Flow[TransferResult]:
    """Moves all elements that are due now; returns the last result, with the total numbers moved and set aside."""
    moved = aside = 0

    def transfer_once(**more: Any) -> Flow[TransferResult]:
        nonlocal moved, aside
        done = yield from ask(transfer(keys, mover_id=mover_id, keeps_seat=keeps_seat, **more))
        moved += done.moved
        aside += done.set_aside
        return done

    while True:
        done = yield from transfer_once()
        if done.left >= WORTH_POSITIONS and done.moved < MOST // 2:
            done = yield from _transfer_by_positions(keys, transfer_once)
        if not done.left:
            return replace(done, moved=moved, set_aside=aside)


def _transfer_by_positions(keys: QueueKeys, transfer_once: Callable[..., Flow[TransferResult]]) -> Flow[TransferResult]:
    done = yield from transfer_once(ahead=MOST_STEP)
    anchor = done.anchor
    if anchor is None:
        return done
    numbers = yield from _numbers(keys, anchor)
    gone = RemovedPositions(anchor.place + 1)
    while done.anchor is not None:
        found: list[int] = []
        for element in done.due_ahead[: _step_size(done.anchor.place)]:
            number = numbers.get(hash(element))
            if number is None:  # it was offered later
                break
            found.append(number)
        if not found:
            return done
        places = [b"%d" % place for place in gone.current(found)]
        done = yield from transfer_once(
            places=places, anchor=done.anchor, ahead=_step_size(done.anchor.place - len(places))
        )
        if not done.assumed_places:
            return done
        gone.add(found[: done.moved + done.set_aside])
    return done


def _step_size(length: int) -> int:
    return max(MOST_STEP - length // PASSED, LEAST_STEP)


class RemovedPositions:
    """The numbers that were removed, in buckets, so that adding and counting are cheap."""

    __slots__ = ("_buckets",)

    def __init__(self, length: int) -> None:
        self._buckets: list[list[int]] = [[] for _ in range(length // BUCKET + 1)]

    def current(self, numbers: list[int]) -> list[int]:
        """The current positions of numbers."""
        buckets = self._buckets
        before = list(accumulate(map(len, buckets), initial=0))
        return [number - before[at := number // BUCKET] - bisect_left(buckets[at], number) for number in numbers]

    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            insort(self._buckets[number // BUCKET], number)


def _numbers(keys: QueueKeys, anchor: Anchor) -> Flow[dict[int, int]]:
    """The elements' numbers by their hashes, which are small; empty if the list changed meanwhile."""
    numbers: dict[int, int] = {}
    at, length = 0, anchor.place + 1
    while at < length:
        command = (b"LRANGE", keys.order, b"%d" % at, b"%d" % (min(at + PAGE, length) - 1))
        page: list[bytes] = yield from ask(Command(command, list))
        if not page:
            return {}
        numbers.update(zip(map(hash, page), range(at, at + len(page)), strict=True))
        at += len(page)
    held = numbers.get(hash(anchor.first)) == 0 and numbers.get(hash(anchor.last)) == anchor.place
    return numbers if held else {}
