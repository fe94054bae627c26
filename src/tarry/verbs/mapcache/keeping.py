"""Keeping maps: who looks when. One evictor a map; whoever else has it open looks around now and then.

    keeper  ── maps, each with an alarm ──▶  look: evict, in my name  ──▶  the next alarm, and whether others rely on me
                                    ▲
    hints   ── an entry ends sooner ──  the evictor hears it

The script knows who has promised to look (lua/lib/seats.lua): the evictor, when the next entry expires and every 5 s; its
deputy, when the evictor is a second late. All others look around every 5 s. By the policy ``adaptive`` the latch decides,
as among Redisson's clients.

Nothing here talks or knows the time: a driver asks whom to look at, performs it, and tells what came of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from tarry.core.requests import Flow, ScriptCall
from tarry.values.durations import MILLISECOND, SECOND
from tarry.verbs.mapcache.desk import MapDesk
from tarry.verbs.mapcache.evicting import (
    EVICTOR,
    AdaptivePolicy,
    Evicted,
    Swept,
    evict_rest,
    evict_step,
    next_pace,
    sweep,
)

FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""
EARLY_S = 2.5
"""A look-around may come so much early, to go with another look."""
AROUND_US = 4_900_000
"""Who may wait so long is told to look around."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""After an error: again after so long, and twice that."""


class Kept:
    """One map that is kept."""

    __slots__ = (
        "again",
        "alarm",
        "answered",
        "around",
        "desk",
        "failures",
        "looking",
        "me",
        "now",
        "pace",
        "rule",
        "seat",
        "users",
    )

    def __init__(self, desk: MapDesk[Any, Any], rule: AdaptivePolicy | None, me: bytes) -> None:
        self.desk = desk
        self.rule = rule
        self.me = me
        self.users: set[int] = set()
        self.alarm: float | None = None  #: when to look; ``None``: now
        self.looking = False  #: a look is on its way …
        self.again = False  #: … and what was heard meanwhile may be newer than its answer
        self.around = False  #: no entry is known to expire before the alarm
        self.seat = 0
        self.failures = 0
        self.pace = rule.begin() if rule else None
        self.answered = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's

    def request(self) -> ScriptCall[Any]:
        """The first step of a look."""
        self.looking, self.again = True, False
        if self.rule is not None and self.pace is not None:
            return sweep(self.desk, self.rule, self.pace)
        return evict_step(self.desk, me=self.me, stays=True)

    def farewell(self) -> ScriptCall[Any] | None:
        """Gives the seat back, so that nobody has to find out."""
        return evict_step(self.desk, me=self.me) if self.seat else None


class Keeper:
    """The maps that one client keeps. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._kept: dict[bytes, Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, desk: MapDesk[Any, Any], rule: AdaptivePolicy | None, user: int, now: float) -> Kept | None:
        """The map, if it was not kept so far. By Redisson's rule the first look comes after the shortest delay."""
        place = desk.keys.hints
        kept = self._kept.get(place)
        if kept is not None:
            kept.users.add(user)
            return None
        kept = self._kept[place] = Kept(desk, rule, self._name)
        kept.users.add(user)
        kept.alarm = now + kept.pace.delay_s if kept.pace else None
        return kept

    def keeps(self, place: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return place in self._kept and user in self._kept[place].users

    def drop(self, place: bytes, user: int) -> Kept | None:
        """The map, if nobody uses it any more."""
        kept = self._kept.get(place)
        if kept is None:
            return None
        kept.users.discard(user)
        return self._kept.pop(place) if not kept.users else None

    @property
    def maps(self) -> list[Kept]:
        return list(self._kept.values())

    def due(self, now: float) -> list[Kept]:
        """The maps to look at now; and those that would only be looked around in soon: so all come to share a round trip."""
        ripe = [kept for kept in self._kept.values() if kept.alarm is None or kept.alarm <= now]
        soon = now + EARLY_S if ripe else now
        return ripe + [kept for kept in self._kept.values() if kept.around and now < (kept.alarm or 0) <= soon]

    def until(self) -> float:
        """When to look next."""
        return min((kept.alarm or 0.0 for kept in self._kept.values()), default=float("inf"))

    def answered(self, kept: Kept, step: Any, sent: float, now: Callable[[], float]) -> Flow[None] | None:
        """Notes the first step of a look; answers what is left to do."""
        if isinstance(step, Swept):
            self._swept(kept, step, now())
            return None
        self._looked(kept, step, sent, now())
        return self._rest(kept, step, now) if step.more or step.uneven else None

    def _rest(self, kept: Kept, step: Evicted, now: Callable[[], float]) -> Flow[None]:
        try:
            _, last = yield from evict_rest(kept.desk, step, me=kept.me, stays=True)
        except Exception:
            self.failed(kept, now())
            raise
        self._looked(kept, last, now() - FROZEN_S, now())

    def _looked(self, kept: Kept, step: Evicted, sent: float, now: float) -> None:
        """Those without a seat look around a little sooner than the script says, each by its own share."""
        kept.seat, kept.failures = step.seat, 0
        kept.answered, kept.now = min(now, sent + FROZEN_S), step.now
        wait = step.wait / SECOND * (1 if step.seat else 1 - crc32(kept.me) % 100 / 1000)
        kept.alarm = None if step.more or kept.again else kept.answered + wait
        kept.looking, kept.around = False, step.wait >= AROUND_US

    def _swept(self, kept: Kept, swept: Swept, now: float) -> None:
        assert kept.rule is not None
        assert kept.pace is not None
        kept.failures, kept.looking = 0, False
        kept.pace = next_pace(kept.rule, kept.pace, swept.found)
        kept.alarm = now + kept.pace.delay_s
        if kept.rule.remove_empty and swept.size == 0:
            self._kept.pop(kept.desk.keys.hints, None)

    def failed(self, kept: Kept, now: float) -> None:
        kept.seat, kept.looking, kept.around = 0, False, False
        if kept.pace is not None:
            kept.alarm = now + kept.pace.delay_s
            return
        kept.alarm = now + min(FIRST_S * 2**kept.failures, LONGEST_S)
        kept.failures = min(kept.failures + 1, 10)

    def heard(self, channel: bytes, message: bytes) -> bool:
        """An entry ends sooner than the evictor has promised to look; answers whether the alarm has moved."""
        kept = self._kept.get(channel)
        if kept is None or kept.rule is not None:
            return False
        if kept.looking or kept.alarm is None:
            kept.again = True
            return False
        if not message:
            kept.alarm = None
            return True
        if kept.seat != EVICTOR or not message.startswith(b"due") or not message[3:].isdigit():
            return False
        ahead = int(message[3:]) * MILLISECOND - kept.now
        kept.alarm = min(kept.alarm, kept.answered + max(ahead, 0) / SECOND)
        return True
