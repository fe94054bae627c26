"""Keeping queues moving: who looks when. One mover a queue and its deputy; whoever else consumes it rests.

    keeper  ── queues, each with an alarm ──▶  requests, all that are due in one pipeline  ──▶  the next alarms, the seats
                                    ▲
    channel ── due time of a new head ── only the mover hears it          calls ── a seat is free ── who rests looks

The transfer script knows who has promised to look (lua/lib/movers.lua): the mover, when the head is due and every 0.7 s; its
deputy, when the mover is 0.1 s late. Who has no seat looks every 5 s, or when it is called. A dead mover is followed within
a second, both dead at once within six (docs/decisions/0012-movers-and-deputies.md).
A message on the channel is a hint; a lost one is made up for by the mover's next look.

Nothing here talks or knows the time: a driver performs the requests, listens to the channels, and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast
from zlib import crc32

from tarry.core.requests import Flow, Request, ScriptCall, ask
from tarry.values.durations import MILLISECOND, SECOND
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.bulk_transfer import transfer_all
from tarry.verbs.delayed.transfer import MOVER, TransferResult, transfer

FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""After an error: again after so long, and twice that, but never later than Redisson."""
ROUND_S, TOGETHER_S = 0.5, 0.35
"""A look that comes after so long is a round; rounds that lie so close are made together."""


class MovedQueue:
    """One queue that is kept moving."""

    __slots__ = (
        "alarm",
        "continuation",
        "failures",
        "first_round",
        "keys",
        "last_answer",
        "mover_id",
        "now",
        "request",
        "seat",
        "sent",
    )

    def __init__(self, keys: QueueKeys, mover_id: bytes) -> None:
        self.keys = keys
        self.mover_id = mover_id
        self.alarm: float | None = None  #: when to look; ``None``: now
        self.first_round = False  #: whether nothing special happens then
        self.seat = 0
        self.failures = 0
        self.last_answer = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's
        self.continuation: Flow[TransferResult] | None = None  #: a look that is not over
        self.request: Request
        self.sent = 0.0


class MoverState:
    """The queues that one client keeps moving. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._queues: dict[bytes, MovedQueue] = {}
        self._channel_queues: dict[bytes, MovedQueue] = {}

    def add(self, keys: QueueKeys) -> bool:
        """True if the queue is new."""
        if keys.channel in self._queues:
            return False
        self._queues[keys.channel] = self._channel_queues[keys.movers] = MovedQueue(keys, self._name)
        return True

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def due_queues(self, now: float) -> list[MovedQueue]:
        """The queues whose ``request`` is to be performed now, all at once; ``answered`` is told of each."""
        due = [
            kept
            for kept in self._queues.values()
            if kept.continuation is None and (kept.alarm is None or kept.alarm <= now)
        ]
        if any(kept.first_round for kept in due):
            due += [kept for kept in self._queues.values() if kept.continuation is None and kept.first_round and kept not in due
                    and kept.alarm is not None and kept.alarm <= now + TOGETHER_S]  # fmt: skip
        for kept in due:
            kept.continuation = transfer_all(kept.keys, mover_id=kept.mover_id, keeps_seat=True)
            kept.request, kept.sent = cast("Request", next(kept.continuation)), now  # a look asks one thing at a time
        return [kept for kept in self._queues.values() if kept.continuation is not None]

    def on_answer(self, queue: MovedQueue, answer: Any, now: float) -> None:
        """What a request brought, or the error that it ended in."""
        assert queue.continuation is not None
        if isinstance(answer, Exception):
            queue.continuation.close()
            queue.continuation = None
            self._failed(queue, now)
            return
        sent, queue.sent = queue.sent, now
        try:
            queue.request = cast("Request", queue.continuation.send(answer))
        except StopIteration as end:
            queue.continuation = None
            self._moved(queue, end.value, sent, now)

    def next_due(self) -> float:
        """When to look next."""
        return min(
            (
                kept.alarm if kept.alarm is not None and kept.continuation is None else 0.0
                for kept in self._queues.values()
            ),
            default=float("inf"),
        )

    def _moved(self, queue: MovedQueue, result: TransferResult, sent: float, now: float) -> None:
        """Those without a seat look around a little sooner than the script says, each by its own share."""
        queue.seat, queue.failures = result.seat, 0
        queue.last_answer, queue.now = min(now, sent + FROZEN_S), result.now
        wait = result.wait / SECOND * (1 if result.seat else 1 - crc32(queue.mover_id) % 100 / 500)
        queue.alarm = None if result.left else queue.last_answer + wait
        queue.first_round = wait >= ROUND_S

    def _failed(self, queue: MovedQueue, now: float) -> None:
        queue.seat = 0
        queue.alarm = now + min(FIRST_S * 2**queue.failures, LONGEST_S)
        queue.first_round = False
        queue.failures = min(queue.failures + 1, 10)

    def leave_requests(self) -> list[ScriptCall[TransferResult]]:
        """Gives up all seats."""
        return [transfer(kept.keys, mover_id=kept.mover_id) for kept in self._queues.values() if kept.seat]

    # ── listening ────────────────────────────────────────────────────────────────────────────────────────────────────

    def channels(self) -> set[bytes]:
        """The channels that are to be heard now: calls for all queues, new heads for those that are moved from here."""
        return set(self._channel_queues) | {channel for channel, kept in self._queues.items() if kept.seat == MOVER}

    def on_message(self, channel: bytes, message: bytes) -> None:
        """A queue has a new head, or a seat is free; an empty message: some may have been missed, and a look makes up for it."""
        kept, called = self._queues.get(channel), self._channel_queues.get(channel)
        if not message:
            for each in (kept, called):
                if each is not None:
                    each.alarm = None
        elif called is not None and called.seat != MOVER:
            called.alarm = None
        elif kept is not None and kept.seat == MOVER:
            self._new_head(kept, message)

    def _new_head(self, queue: MovedQueue, message: bytes) -> None:
        """The mover looks when it is due, by the server's clock."""
        if queue.alarm is None:
            return
        try:
            ahead = int(message) * MILLISECOND - queue.now
        except ValueError:
            queue.alarm = None
            return
        due = queue.last_answer + max(ahead, 0) / SECOND
        if due < queue.alarm:
            queue.alarm, queue.first_round = due, False


class MoverClock(Protocol):
    """A clock that passes when it is told to."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def simulate_take(queues: Sequence[QueueKeys], seconds: float, time: MoverClock) -> Flow[tuple[bytes, bytes] | None]:
    """A whole wait for a payload of one of the queues, in a time that passes only here."""
    until = time.seconds() + seconds
    while True:
        waits: list[int] = []
        for keys in queues:
            found = yield from ask(transfer(keys, want=1))
            if found.payloads:
                return keys.ready, found.payloads[0]
            waits.append(0 if found.left else found.wait)
        if time.seconds() >= until:
            return None
        time.pass_until(min(until, time.seconds() + min(waits) / SECOND))
