"""Moving due elements: one bounded script, many of them for a long queue, and again and again by the clients of a queue.

``transfer`` does as much as one script may, and returns when to look again. A caller with an id that stays is the mover of the
queue or its deputy, unless others are (lua/redisson/lib/seats.lua).

``transfer_all`` moves very many elements: the client finds out their positions, so that no script has to search for them.

    order     e0 e1 e2 e3 e4 e5 …       read once, in pages: element → number
    gone      1 4 …                     numbers that were removed; an element's position is its number minus those before it

LREM compares from one end of the list; with mixed due times and a long list that costs a millisecond an
element. An element in the middle can be replaced in microseconds. So the mover passes the positions of the next due elements,
and the script removes all of them in one pass. It trusts the positions while the list's first element and the last one that
was read are unmoved: offers are appended, and any other change moves one of the two, for no element occurs twice. An offer that
is overdue already, by a clock that is late, moves the last due element, and is noticed by that. Changes by others meanwhile cost
another read, and never change what is moved.

``MovedQueue`` is a queue that a client moves. Each queue has one mover and its deputy; all other consumers rest.
The transfer script knows which clients will look in time (lua/redisson/lib/seats.lua): the mover, when the head is due and every 0.7 s;
its deputy, when the mover is 0.1 s late. A client without a seat looks every 5 s, or when a message says that a seat is free. A
dead mover is replaced within a second, both dead at once within six (docs/decisions/0012-movers-and-deputies.md).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.values.durations import SECOND
from tarry.values.keys import QUEUE_PARTS, QueueKeys
from tarry.verbs.redisson.delayed.elements import checked_limit
from tarry.verbs.redisson.delayed.learnt_format import log_learnt
from tarry.verbs.redisson.delayed.queue_context import DecodedPayloads, QueueContext
from tarry.verbs.redisson.duties import SeatedDuty

T = TypeVar("T")

TRANSFER = Script(
    "redisson/delayed/transfer",
    args=("most", "limit", "waiter", "keeps_running", "ahead", "final", "first", "last"),
    item=("place",),
    keys=QUEUE_PARTS,
)
ADD_POISON = Script("redisson/delayed/add_poison", item=("payload", "reason"), keys=QUEUE_PARTS)
MOST = 1000
"""One script moves no more elements."""
NOBODY = b""
MOVER, DEPUTY = 1, 2


@dataclass(frozen=True, slots=True)
class Anchor:
    """Two elements of the list of offers: the first, and one at a position. While both are there, so is all between."""

    place: int
    first: bytes
    last: bytes


@dataclass(frozen=True, slots=True)
class TransferResult:
    """The answer of one transfer."""

    now: int
    wait: int
    """Microseconds until the next look."""
    seat: int
    """``MOVER``, ``DEPUTY`` or 0: the seat of the caller."""
    left: int
    """How many due elements are left."""
    moved: int
    poison: int
    assumed_places: bool
    """Whether the positions were right, so that nothing was searched for."""
    due_ahead: list[bytes]
    """The next elements, up to ``ahead``."""
    anchor: Anchor | None
    """The anchor for them, after this transfer; ``None`` if nothing of the known part of the list is left."""
    payloads: list[bytes]


def _parse_result(reply: Reply) -> TransferResult:
    now, wait, seat, left, moved, poison, believed, ahead, anchor, *payloads = reply
    known = Anchor(int(anchor[0]), anchor[1], anchor[2]) if anchor else None
    return TransferResult(
        now=now,
        wait=wait,
        seat=seat,
        left=left,
        moved=moved,
        poison=poison,
        assumed_places=bool(believed),
        due_ahead=ahead,
        anchor=known,
        payloads=payloads,
    )


def transfer(
    keys: QueueKeys,
    *,
    mover_id: bytes = NOBODY,
    keeps_seat: bool = False,
    limit: int = 0,
    ahead: int = 0,
    places: Sequence[bytes] = (),
    anchor: Anchor | None = None,
) -> ScriptCall[TransferResult]:
    """One transfer; up to ``limit`` payloads are taken for the caller, which go back to the head if they are no longer
    wanted.

    ``ahead`` asks for the next elements; ``places`` are their positions, valid as long as the ``anchor`` holds.
    """
    known = (b"%d" % anchor.place, anchor.first, anchor.last) if anchor is not None else (b"", b"", b"")
    args = (b"%d" % (len(places) or MOST), b"%d" % limit, mover_id, b"1" if keeps_seat else b"0", b"%d" % ahead, *known)

    def undo(moved: TransferResult) -> Any:
        return give_back(keys.ready, moved.payloads) if moved.payloads else None

    return ScriptCall(
        TRANSFER,
        keys,
        args,
        log_learnt(keys, _parse_result),
        items=places,
        never_merged=True,
        undo=undo if limit else None,
    )


def give_back(ready: bytes, payloads: Sequence[bytes]) -> Command[int]:
    """Puts payloads back to the head, in their order."""
    return Command((b"LPUSH", ready, *reversed(payloads)), int)


def add_poison(keys: QueueKeys, undecodable: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
    """Adds payloads to the queue's poison, with the reasons."""
    items = [arg for payload, reason in undecodable for arg in (payload, reason.encode("utf-8", "replace"))]
    return ScriptCall(ADD_POISON, keys, (), list, items=items, never_merged=True)


@dataclass(frozen=True, slots=True)
class PoisonElement:
    """An element of a queue that was set aside, because it could not be decoded."""

    raw: bytes
    """The bytes that could not be decoded: the whole packed element, or only its value if the element had been unpacked."""
    reason: str
    """Why the bytes could not be decoded."""


def poll_ready(context: QueueContext[T], limit: int) -> ScriptCall[DecodedPayloads]:
    """Moves due elements, and takes up to ``limit`` payloads."""
    call = transfer(context.keys, limit=checked_limit(limit))
    answered: list[bytes] = []

    def decode(reply: Reply) -> DecodedPayloads:
        answered[:] = _parse_result(reply).payloads
        return context.decode_all(answered)

    def undo(_: DecodedPayloads) -> Any:
        return give_back(context.keys.ready, answered) if answered else None

    return ScriptCall(TRANSFER, call.keys, call.args, log_learnt(context.keys, decode), undo=undo)


# ── very many elements ────────────────────────────────────────────────────────────────────────────────────────────────

WORTH_POSITIONS = 200
"""With fewer left, searching costs less than reading the list."""
PAGE = 2000
MOST_STEP, LEAST_STEP, PASSED = 750, 100, 280
"""A script takes about 5 ms: 7 µs for an element, and as much for each 280 elements of the list."""
BUCKET = 256


def transfer_all(keys: QueueKeys, *, mover_id: bytes = NOBODY, keeps_seat: bool = False) -> Flow[TransferResult]:
    """Moves all elements that are due now; returns the last result, with the total numbers moved and added to the poison."""
    moved = poison = 0

    def transfer_once(**more: Any) -> Flow[TransferResult]:
        nonlocal moved, poison
        done = yield from ask(transfer(keys, mover_id=mover_id, keeps_seat=keeps_seat, **more))
        moved += done.moved
        poison += done.poison
        return done

    while True:
        done = yield from transfer_once()
        if done.left >= WORTH_POSITIONS and done.moved < MOST // 2:
            done = yield from _transfer_by_positions(keys, transfer_once)
        if not done.left:
            return replace(done, moved=moved, poison=poison)


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
        gone.add(found[: done.moved + done.poison])
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


# ── again and again ───────────────────────────────────────────────────────────────────────────────────────────────────


class MovedQueue(SeatedDuty):
    """One queue that this client moves."""

    IDLE_WAIT_S, SHARE_PIPELINE_S = 0.5, 0.35

    def __init__(self, keys: QueueKeys, mover_id: bytes) -> None:
        super().__init__(keys.channel, keys.ready.decode(), "moved", mover_id)
        self.keys = keys

    def check(self) -> Flow[TransferResult]:
        return transfer_all(self.keys, mover_id=self.client_id, keeps_seat=True)

    def checked(self, result: TransferResult, sent: float, now: float) -> None:
        self._seated(result.seat, result.now, result.wait, sent, now, more=bool(result.left))

    def channels(self) -> tuple[bytes, ...]:
        """Calls for all; new heads for its mover."""
        return (self.keys.movers, self.keys.channel) if self.seat == MOVER else (self.keys.movers,)

    def on_message(self, channel: bytes, message: bytes) -> None:
        """The queue has a new head, or a seat is free."""
        if channel == self.keys.channel and message.isdigit():
            self._due_at(message)
        elif channel == self.keys.channel or self.seat != MOVER:
            self.alarm = None

    def leave_request(self) -> ScriptCall[TransferResult] | None:
        return transfer(self.keys, mover_id=self.client_id) if self.seat else None


class MoverClock(Protocol):
    """A clock that is advanced by its user."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def simulate_take(queues: Sequence[QueueKeys], seconds: float, time: MoverClock) -> Flow[tuple[bytes, bytes] | None]:
    """Performs a whole wait for a payload of one of the queues, in imaginary time."""
    until = time.seconds() + seconds
    while True:
        waits: list[int] = []
        for keys in queues:
            found = yield from ask(transfer(keys, limit=1))
            if found.payloads:
                return keys.ready, found.payloads[0]
            waits.append(0 if found.left else found.wait)
        if time.seconds() >= until:
            return None
        time.pass_until(min(until, time.seconds() + min(waits) / SECOND))
