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
from tarry.verbs.delayed.moving import MOVER, Moved, transfer
from tarry.verbs.delayed.places import transfer_all

FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""After an error: again after so long, and twice that, but never later than Redisson."""
ROUND_S, TOGETHER_S = 0.5, 0.35
"""A look that comes after so long is a round; rounds that lie so close are made together."""


class Kept:
    """One queue that is kept moving."""

    __slots__ = ("alarm", "answered", "failures", "keys", "me", "now", "request", "round", "seat", "sent", "work")

    def __init__(self, keys: QueueKeys, me: bytes) -> None:
        self.keys = keys
        self.me = me
        self.alarm: float | None = None  #: when to look; ``None``: now
        self.round = False  #: whether nothing special happens then
        self.seat = 0
        self.failures = 0
        self.answered = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's
        self.work: Flow[Moved] | None = None  #: a look that is not over
        self.request: Request
        self.sent = 0.0


class Keeper:
    """The queues that one client keeps moving. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._kept: dict[bytes, Kept] = {}
        self._calls: dict[bytes, Kept] = {}

    def add(self, keys: QueueKeys) -> bool:
        """True if the queue is new."""
        if keys.channel in self._kept:
            return False
        self._kept[keys.channel] = self._calls[keys.movers] = Kept(keys, self._name)
        return True

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def requests(self, now: float) -> list[Kept]:
        """The queues whose ``request`` is to be performed now, all at once; ``answered`` is told of each."""
        due = [kept for kept in self._kept.values() if kept.work is None and (kept.alarm is None or kept.alarm <= now)]
        if any(kept.round for kept in due):
            due += [kept for kept in self._kept.values() if kept.work is None and kept.round and kept not in due
                    and kept.alarm is not None and kept.alarm <= now + TOGETHER_S]  # fmt: skip
        for kept in due:
            kept.work = transfer_all(kept.keys, me=kept.me, stays=True)
            kept.request, kept.sent = cast("Request", next(kept.work)), now  # a look asks one thing at a time
        return [kept for kept in self._kept.values() if kept.work is not None]

    def answered(self, kept: Kept, answer: Any, now: float) -> None:
        """What a request brought, or the error that it ended in."""
        assert kept.work is not None
        if isinstance(answer, Exception):
            kept.work.close()
            kept.work = None
            self._failed(kept, now)
            return
        sent, kept.sent = kept.sent, now
        try:
            kept.request = cast("Request", kept.work.send(answer))
        except StopIteration as end:
            kept.work = None
            self._looked(kept, end.value, sent, now)

    def until(self) -> float:
        """When to look next."""
        return min(
            (kept.alarm if kept.alarm is not None and kept.work is None else 0.0 for kept in self._kept.values()),
            default=float("inf"),
        )

    def _looked(self, kept: Kept, found: Moved, sent: float, now: float) -> None:
        """Those without a seat look around a little sooner than the script says, each by its own share."""
        kept.seat, kept.failures = found.seat, 0
        kept.answered, kept.now = min(now, sent + FROZEN_S), found.now
        wait = found.wait / SECOND * (1 if found.seat else 1 - crc32(kept.me) % 100 / 500)
        kept.alarm = None if found.left else kept.answered + wait
        kept.round = wait >= ROUND_S

    def _failed(self, kept: Kept, now: float) -> None:
        kept.seat = 0
        kept.alarm = now + min(FIRST_S * 2**kept.failures, LONGEST_S)
        kept.round = False
        kept.failures = min(kept.failures + 1, 10)

    def farewells(self) -> list[ScriptCall[Moved]]:
        """Gives up all seats."""
        return [transfer(kept.keys, me=kept.me) for kept in self._kept.values() if kept.seat]

    # ── listening ────────────────────────────────────────────────────────────────────────────────────────────────────

    def wanted(self) -> set[bytes]:
        """The channels that are to be heard now: calls for all queues, new heads for those that are moved from here."""
        return set(self._calls) | {channel for channel, kept in self._kept.items() if kept.seat == MOVER}

    def heard(self, channel: bytes, message: bytes) -> None:
        """A queue has a new head, or a seat is free; an empty message: some may have been missed, and a look makes up for it."""
        kept, called = self._kept.get(channel), self._calls.get(channel)
        if not message:
            for each in (kept, called):
                if each is not None:
                    each.alarm = None
        elif called is not None and called.seat != MOVER:
            called.alarm = None
        elif kept is not None and kept.seat == MOVER:
            self._head(kept, message)

    def _head(self, kept: Kept, message: bytes) -> None:
        """The mover looks when it is due, by the server's clock."""
        if kept.alarm is None:
            return
        try:
            ahead = int(message) * MILLISECOND - kept.now
        except ValueError:
            kept.alarm = None
            return
        due = kept.answered + max(ahead, 0) / SECOND
        if due < kept.alarm:
            kept.alarm, kept.round = due, False


class Time(Protocol):
    """A clock that passes when it is told to."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def imaginary(queues: Sequence[QueueKeys], seconds: float, time: Time) -> Flow[tuple[bytes, bytes] | None]:
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
