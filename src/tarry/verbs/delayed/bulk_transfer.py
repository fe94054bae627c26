"""Moving very many: the client learns where they are, so that no script has to search for them.

    order     e0 e1 e2 e3 e4 e5 …       read once, in pages: element → number
    gone      1 4 …                     numbers that were taken out; an element's place is its number less those before it

LREM compares from one end of the list on; where due times are mixed and the list is long that costs a millisecond an
element. An element in the middle can be replaced in microseconds. So the mover says for each of the next due elements
where it is, and the script takes all of them out in one pass. It believes the places while the list's first element and
the last one that was read are where they were: offers come after that one, and whatever else happens in between moves
it, for no element comes twice. An offer that is overdue already, by a clock that is late, moves the last of those that
are due, and is seen by that. What others do to the list meanwhile costs another reading, never changes what is moved.
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
"""One script takes some 5 ms: an element 7 µs, and the pass through the list as much as an element for each 280 in it."""
BUCKET = 256


def transfer_all(keys: QueueKeys, *, mover_id: bytes = NOBODY, keeps_seat: bool = False) -> Flow[TransferResult]:
    """Everything that is due now; answers the last transfer, with how many were moved and set aside in all."""
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
            if number is None:  # it came later
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
    """Numbers that are gone, in buckets, so that what is asked and told of them costs little however many they are."""

    __slots__ = ("_buckets",)

    def __init__(self, length: int) -> None:
        self._buckets: list[list[int]] = [[] for _ in range(length // BUCKET + 1)]

    def current(self, numbers: list[int]) -> list[int]:
        """Where they are now."""
        buckets = self._buckets
        before = list(accumulate(map(len, buckets), initial=0))
        return [number - before[at := number // BUCKET] - bisect_left(buckets[at], number) for number in numbers]

    def add(self, numbers: list[int]) -> None:
        for number in numbers:
            insort(self._buckets[number // BUCKET], number)


def _numbers(keys: QueueKeys, anchor: Anchor) -> Flow[dict[int, int]]:
    """The elements' hashes, which are small, by their place in the list; none if it changed meanwhile."""
    numbers: dict[int, int] = {}
    at, length = 0, anchor.place + 1
    while at < length:
        words = (b"LRANGE", keys.order, b"%d" % at, b"%d" % (min(at + PAGE, length) - 1))
        page: list[bytes] = yield from ask(Command(words, list))
        if not page:
            return {}
        numbers.update(zip(map(hash, page), range(at, at + len(page)), strict=True))
        at += len(page)
    held = numbers.get(hash(anchor.first)) == 0 and numbers.get(hash(anchor.last)) == anchor.place
    return numbers if held else {}
