"""Moving very many: the client learns where they are, so that no script has to search for them.

    order     e0 e1 e2 e3 e4 e5 …       read once, in pages: element → number
    removed   1 4 …                     numbers that are gone; an element's place is its number less those before it

LREM compares from one end of the list on; where due times are mixed and the list is long that costs a millisecond an
element. A list can be read, and an element in the middle be replaced, in microseconds. So the mover says for each of the
next due elements where it is, the script looks whether it is there, and takes all of them out in one pass. What others do
to the list meanwhile makes places wrong, never what is moved: then it is searched for, and the list is read anew.
"""

from __future__ import annotations

from bisect import bisect_left

from tarry.idea.calls import Command, Flow, ask
from tarry.verbs.delayed.moving import MOST, NOBODY, Moved, transfer
from tarry.words.keys import QueueKeys

WORTH = 200
"""With fewer left, searching costs less than reading the list."""
PAGE = 2000
STEP = 400
"""One script moves so many by their places: some 4 ms."""
MOST_STRAYS = 3


def transfer_all(keys: QueueKeys, *, me: bytes = NOBODY, stays: bool = False) -> Flow[Moved]:
    """Everything that is due now; answers the last transfer."""
    while True:
        done = yield from ask(transfer(keys, me=me, stays=stays))
        if done.left >= WORTH and done.moved < MOST // 2:
            done = yield from _by_places(keys, me, stays)
        if not done.left:
            return done


def _by_places(keys: QueueKeys, me: bytes, stays: bool) -> Flow[Moved]:
    done = yield from ask(transfer(keys, me=me, stays=stays, ahead=STEP))
    numbers = yield from _numbers(keys)
    removed: list[int] = []
    while done.ahead and done.strays <= MOST_STRAYS:
        known = [numbers.pop(hash(element), -1) for element in done.ahead]
        places = [b"%d" % (number - bisect_left(removed, number)) if number >= 0 else b"" for number in known]
        done = yield from ask(transfer(keys, me=me, stays=stays, places=places, ahead=STEP))
        removed += sorted(number for number in known if number >= 0)
        removed.sort()  # two runs that are sorted: a merge
    return done


def _numbers(keys: QueueKeys) -> Flow[dict[int, int]]:
    """The elements' hashes, which are small, by their place in the list."""
    numbers: dict[int, int] = {}
    at = 0
    while True:
        words = (b"LRANGE", keys.order, b"%d" % at, b"%d" % (at + PAGE - 1))
        page: list[bytes] = yield from ask(Command(words, list))
        numbers.update(zip(map(hash, page), range(at, at + len(page)), strict=True))
        at += len(page)
        if len(page) < PAGE:
            return numbers
