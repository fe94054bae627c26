"""Keeping queues moving: who looks when. One mover a queue, whoever else consumes it looks around now and then.

    keeper  ── queues, each with an alarm ──▶  look: transfer, in my name  ──▶  the next alarm, and whether I am the mover
                                    ▲
    channel ── due time of a new head ── only the mover hears it

The transfer script knows who has promised to look (lua/lib/movers.lua): the mover, when the head is due and every 0.4 s; its
deputy, when the mover is 0.1 s late. All others look around once a second. A dead mover is followed within a second.
A message on the channel is a hint; a lost one is made up for by the mover's next look.

Nothing here talks or knows the time: a driver asks whom to look at, performs it, and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from zlib import crc32

from tarry.idea.calls import Flow, ask
from tarry.verbs.delayed.moving import MOVER, Moved, transfer
from tarry.verbs.delayed.places import transfer_all
from tarry.words.durations import MILLISECOND, SECOND
from tarry.words.keys import QueueKeys

FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""After an error: again after so long, and twice that, but never later than Redisson."""


class Kept:
    """One queue that is kept moving."""

    __slots__ = ("alarm", "answered", "failures", "keys", "me", "now", "seat")

    def __init__(self, keys: QueueKeys, me: bytes) -> None:
        self.keys = keys
        self.me = me
        self.alarm: float | None = None  #: when to look; ``None``: now
        self.seat = 0
        self.failures = 0
        self.answered = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's


class Keeper:
    """The queues that one client keeps moving. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._kept: dict[bytes, Kept] = {}

    def add(self, keys: QueueKeys) -> bool:
        """True if the queue is new."""
        if keys.channel in self._kept:
            return False
        self._kept[keys.channel] = Kept(keys, self._name)
        return True

    @property
    def channels(self) -> tuple[bytes, ...]:
        return tuple(self._kept)

    @property
    def moving(self) -> list[Kept]:
        """The queues for which others rely on this keeper."""
        return [kept for kept in self._kept.values() if kept.seat]

    def due(self, now: float) -> list[Kept]:
        """The queues to look at now."""
        return [kept for kept in self._kept.values() if kept.alarm is None or kept.alarm <= now]

    def until(self) -> float:
        """When to look next."""
        return min((kept.alarm or 0.0 for kept in self._kept.values()), default=float("inf"))

    def looked(self, kept: Kept, found: Moved, sent: float, now: float) -> None:
        """Those without a seat look around a little sooner than the script says, each by its own share."""
        kept.seat, kept.failures = found.seat, 0
        kept.answered, kept.now = min(now, sent + FROZEN_S), found.now
        wait = found.wait / SECOND * (1 if found.seat else 1 - crc32(kept.me) % 100 / 1000)
        kept.alarm = None if found.left else kept.answered + wait

    def failed(self, kept: Kept, now: float) -> None:
        kept.seat = 0
        kept.alarm = now + min(FIRST_S * 2**kept.failures, LONGEST_S)
        kept.failures = min(kept.failures + 1, 10)

    def heard(self, channel: bytes, message: bytes) -> None:
        """A queue has a new head: the mover looks when it is due, by the server's clock."""
        kept = self._kept.get(channel)
        if kept is None or kept.seat != MOVER or kept.alarm is None:
            return
        try:
            ahead = int(message) * MILLISECOND - kept.now
        except ValueError:
            kept.alarm = None
        else:
            kept.alarm = min(kept.alarm, kept.answered + max(ahead, 0) / SECOND)

    def deaf(self) -> None:
        """Messages may have been missed: look at everything."""
        for kept in self._kept.values():
            kept.alarm = None


def look(kept: Kept, keeper: Keeper, now: Callable[[], float]) -> Flow[None]:
    """One look at one queue, in the keeper's name."""
    sent = now()
    try:
        found = yield from transfer_all(kept.keys, me=kept.me, stays=True)
    except Exception:
        keeper.failed(kept, now())
        raise
    keeper.looked(kept, found, sent, now())


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
