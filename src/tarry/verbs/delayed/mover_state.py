"""Which queues a client moves, and when. Each queue has one mover and its deputy; all other consumers rest.

    MoverState ── queues, each with an alarm ──▶  requests, all that are due in one pipeline  ──▶  the next alarms, the seats
                                    ▲
    channels ── the due time of a new head (only the mover subscribes) ── calls: a seat is free (all others look)

The transfer script knows which clients will look in time (lua/lib/seats.lua): the mover, when the head is due and every 0.7 s;
its deputy, when the mover is 0.1 s late. A client without a seat looks every 5 s, or when a message says that a seat is free. A
dead mover is replaced within a second, both dead at once within six (docs/decisions/0012-movers-and-deputies.md).
A message on the channel is a hint; if it is lost, the mover's next look makes up for it.

Nothing here does I/O or knows the time: a driver performs the requests, subscribes to the channels, and reports the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast
from zlib import crc32

from tarry.core.patience import RetryDelay
from tarry.core.requests import Flow, Request, ScriptCall, ask
from tarry.values.durations import MILLISECOND, SECOND
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.bulk_transfer import transfer_all
from tarry.verbs.delayed.transfer import MOVER, TransferResult, transfer

FROZEN_S = 0.05
"""If an answer is read later than this, the process was probably frozen meanwhile."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""The delays after an error: the first, which is doubled, and the longest, which is not longer than Redisson's."""
ROUND_S, TOGETHER_S = 0.5, 0.35
"""A client without a seat looks once in a round; rounds that are as close as TOGETHER_S are made together."""


class MovedQueue:
    """One queue that this client moves."""

    __slots__ = (
        "alarm",
        "back_off",
        "continuation",
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
        self.alarm: float | None = None  #: when to transfer next; ``None``: now
        self.first_round = False  #: whether the alarm is only the end of a round
        self.seat = 0
        self.back_off = RetryDelay(FIRST_S, LONGEST_S)
        self.last_answer = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's
        self.continuation: Flow[TransferResult] | None = None  #: a transfer that has not finished
        self.request: Request
        self.sent = 0.0


class MoverState:
    """The queues that one client moves. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._queues: dict[bytes, MovedQueue] = {}
        self._channel_queues: dict[bytes, MovedQueue] = {}

    def add(self, keys: QueueKeys) -> bool:
        """Adds a queue. Returns true if it is new."""
        if keys.channel in self._queues:
            return False
        self._queues[keys.channel] = self._channel_queues[keys.movers] = MovedQueue(keys, self._name)
        return True

    # ── transfers ────────────────────────────────────────────────────────────────────────────────────────────────────

    def due_queues(self, now: float) -> list[MovedQueue]:
        """The queues whose ``request`` is due now; the driver performs all at once, and calls ``on_answer`` for each."""
        due = [
            moved_queue
            for moved_queue in self._queues.values()
            if moved_queue.continuation is None and (moved_queue.alarm is None or moved_queue.alarm <= now)
        ]
        if any(moved_queue.first_round for moved_queue in due):
            due += [moved_queue for moved_queue in self._queues.values() if moved_queue.continuation is None and moved_queue.first_round and moved_queue not in due
                    and moved_queue.alarm is not None and moved_queue.alarm <= now + TOGETHER_S]  # fmt: skip
        for moved_queue in due:
            moved_queue.continuation = transfer_all(moved_queue.keys, mover_id=moved_queue.mover_id, keeps_seat=True)
            moved_queue.request, moved_queue.sent = (
                cast("Request", next(moved_queue.continuation)),
                now,
            )  # a transfer sends one request at a time
        return [moved_queue for moved_queue in self._queues.values() if moved_queue.continuation is not None]

    def on_answer(self, queue: MovedQueue, answer: Any, now: float) -> None:
        """Takes the answer to a queue's request, or its error."""
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
        """When the next transfer is due."""
        return min(
            (
                moved_queue.alarm if moved_queue.alarm is not None and moved_queue.continuation is None else 0.0
                for moved_queue in self._queues.values()
            ),
            default=float("inf"),
        )

    def _moved(self, queue: MovedQueue, result: TransferResult, sent: float, now: float) -> None:
        """Sets the next alarm; clients without a seat look a little earlier than the script says, each by another share."""
        queue.seat = result.seat
        queue.back_off.reset()
        queue.last_answer, queue.now = min(now, sent + FROZEN_S), result.now
        wait = result.wait / SECOND * (1 if result.seat else 1 - crc32(queue.mover_id) % 100 / 500)
        queue.alarm = None if result.left else queue.last_answer + wait
        queue.first_round = wait >= ROUND_S

    def _failed(self, queue: MovedQueue, now: float) -> None:
        queue.seat = 0
        queue.alarm = now + queue.back_off.next_delay()
        queue.first_round = False

    def leave_requests(self) -> list[ScriptCall[TransferResult]]:
        """The requests that give up all seats."""
        return [
            transfer(moved_queue.keys, mover_id=moved_queue.mover_id)
            for moved_queue in self._queues.values()
            if moved_queue.seat
        ]

    # ── channels ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def channels(self) -> set[bytes]:
        """The channels to subscribe to now: calls for all queues, new heads for those that this client moves."""
        return set(self._channel_queues) | {
            channel for channel, moved_queue in self._queues.items() if moved_queue.seat == MOVER
        }

    def on_message(self, channel: bytes, message: bytes) -> None:
        """A queue has a new head, or a seat is free. An empty message: some may have been lost, so look now."""
        moved_queue, called_queue = self._queues.get(channel), self._channel_queues.get(channel)
        if not message:
            for each in (moved_queue, called_queue):
                if each is not None:
                    each.alarm = None
        elif called_queue is not None and called_queue.seat != MOVER:
            called_queue.alarm = None
        elif moved_queue is not None and moved_queue.seat == MOVER:
            self._new_head(moved_queue, message)

    def _new_head(self, queue: MovedQueue, message: bytes) -> None:
        """Sets the alarm to the due time of the new head, by the server's clock."""
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
    """A clock that is advanced by its user."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def simulate_take(queues: Sequence[QueueKeys], seconds: float, time: MoverClock) -> Flow[tuple[bytes, bytes] | None]:
    """Performs a whole wait for a payload of one of the queues, in imaginary time."""
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
