"""A queue that a client moves. Each queue has one mover and its deputy; all other consumers rest.

The transfer script knows which clients will look in time (lua/lib/seats.lua): the mover, when the head is due and every 0.7 s;
its deputy, when the mover is 0.1 s late. A client without a seat looks every 5 s, or when a message says that a seat is free. A
dead mover is replaced within a second, both dead at once within six (docs/decisions/0012-movers-and-deputies.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tarry.core.duties import SeatedDuty
from tarry.core.requests import Flow, ScriptCall, ask
from tarry.values.durations import SECOND
from tarry.values.keys import QueueKeys
from tarry.verbs.delayed.bulk_transfer import transfer_all
from tarry.verbs.delayed.transfer import MOVER, TransferResult, transfer


class MovedQueue(SeatedDuty):
    """One queue that this client moves."""

    IDLE_WAIT_S, SHARE_PIPELINE_S = 0.5, 0.35

    def __init__(self, keys: QueueKeys, mover_id: bytes) -> None:
        super().__init__(keys.channel, keys.ready.decode(), "moved", mover_id)
        self.keys = keys

    def look(self) -> Flow[TransferResult]:
        return transfer_all(self.keys, mover_id=self.client_id, keeps_seat=True)

    def looked(self, result: TransferResult, sent: float, now: float) -> None:
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
            found = yield from ask(transfer(keys, count=1))
            if found.payloads:
                return keys.ready, found.payloads[0]
            waits.append(0 if found.left else found.wait)
        if time.seconds() >= until:
            return None
        time.pass_until(min(until, time.seconds() + min(waits) / SECOND))
