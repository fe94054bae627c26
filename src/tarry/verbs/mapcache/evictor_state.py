"""Keeping maps: who looks when. One evictor a map; whoever else has it open looks around now and then.

    keeper  ── maps, each with an alarm ──▶  look: evict, in my name  ──▶  the next alarm, and whether others rely on evictor_id
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
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import (
    EVICTOR,
    AdaptivePolicy,
    EvictReply,
    SweepReply,
    evict_rest,
    evict_step,
    next_pace,
    sweep,
)

FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""
BUNDLE_WITHIN_S = 2.5
"""A look-around may come so much early, to go with another look."""
RECHECK_US = 4_900_000
"""Who may wait so long is told to look around."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""After an error: again after so long, and twice that."""


class EvictedMap:
    """One map that is kept."""

    __slots__ = (
        "alarm",
        "context",
        "evictor_id",
        "failures",
        "in_progress",
        "is_recheck",
        "last_answer",
        "more_due",
        "now",
        "pace",
        "policy",
        "seat",
        "users",
    )

    def __init__(self, context: MapContext[Any, Any], policy: AdaptivePolicy | None, evictor_id: bytes) -> None:
        self.context = context
        self.policy = policy
        self.evictor_id = evictor_id
        self.users: set[int] = set()
        self.alarm: float | None = None  #: when to look; ``None``: now
        self.in_progress = False  #: a look is on its way …
        self.more_due = False  #: … and what was heard meanwhile may be newer than its answer
        self.is_recheck = False  #: no entry is known to expire before the alarm
        self.seat = 0
        self.failures = 0
        self.pace = policy.begin() if policy else None
        self.last_answer = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's

    def first_step(self) -> ScriptCall[Any]:
        """The first step of a look."""
        self.in_progress, self.more_due = True, False
        if self.policy is not None and self.pace is not None:
            return sweep(self.context, self.policy, self.pace)
        return evict_step(self.context, evictor_id=self.evictor_id, keeps_seat=True)

    def leave_request(self) -> ScriptCall[Any] | None:
        """Gives the seat back, so that nobody has to find out."""
        return evict_step(self.context, evictor_id=self.evictor_id) if self.seat else None


class EvictorState:
    """The maps that one client keeps. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._maps: dict[bytes, EvictedMap] = {}

    def __len__(self) -> int:
        return len(self._maps)

    def add(
        self, context: MapContext[Any, Any], policy: AdaptivePolicy | None, user: int, now: float
    ) -> EvictedMap | None:
        """The map, if it was not kept so far. By Redisson's rule the first look comes after the shortest delay."""
        place = context.keys.hints
        evicted_map = self._maps.get(place)
        if evicted_map is not None:
            evicted_map.users.add(user)
            return None
        evicted_map = self._maps[place] = EvictedMap(context, policy, self._name)
        evicted_map.users.add(user)
        evicted_map.alarm = now + evicted_map.pace.delay_s if evicted_map.pace else None
        return evicted_map

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether it keeps the map for this user."""
        return key in self._maps and user in self._maps[key].users

    def remove(self, key: bytes, user: int) -> EvictedMap | None:
        """The map, if nobody uses it any more."""
        evicted_map = self._maps.get(key)
        if evicted_map is None:
            return None
        evicted_map.users.discard(user)
        return self._maps.pop(key) if not evicted_map.users else None

    @property
    def maps(self) -> list[EvictedMap]:
        return list(self._maps.values())

    def due(self, now: float) -> list[EvictedMap]:
        """The maps to look at now; and those that would only be looked around in soon: so all come to share a round trip."""
        ripe = [
            evicted_map for evicted_map in self._maps.values() if evicted_map.alarm is None or evicted_map.alarm <= now
        ]
        soon = now + BUNDLE_WITHIN_S if ripe else now
        return ripe + [
            evicted_map
            for evicted_map in self._maps.values()
            if evicted_map.is_recheck and now < (evicted_map.alarm or 0) <= soon
        ]

    def next_due(self) -> float:
        """When to look next."""
        return min((evicted_map.alarm or 0.0 for evicted_map in self._maps.values()), default=float("inf"))

    def on_step(self, evicted_map: EvictedMap, step: Any, sent: float, now: Callable[[], float]) -> Flow[None] | None:
        """Notes the first step of a look; answers what is left to do."""
        if isinstance(step, SweepReply):
            self._swept(evicted_map, step, now())
            return None
        self._evicted(evicted_map, step, sent, now())
        return self._remaining_work(evicted_map, step, now) if step.more or step.inexact else None

    def _remaining_work(self, evicted_map: EvictedMap, step: EvictReply, now: Callable[[], float]) -> Flow[None]:
        try:
            _, last = yield from evict_rest(
                evicted_map.context, step, evictor_id=evicted_map.evictor_id, keeps_seat=True
            )
        except Exception:
            self.failed(evicted_map, now())
            raise
        self._evicted(evicted_map, last, now() - FROZEN_S, now())

    def _evicted(self, evicted_map: EvictedMap, step: EvictReply, sent: float, now: float) -> None:
        """Those without a seat look around a little sooner than the script says, each by its own share."""
        evicted_map.seat, evicted_map.failures = step.seat, 0
        evicted_map.last_answer, evicted_map.now = min(now, sent + FROZEN_S), step.now
        wait = step.wait / SECOND * (1 if step.seat else 1 - crc32(evicted_map.evictor_id) % 100 / 1000)
        evicted_map.alarm = None if step.more or evicted_map.more_due else evicted_map.last_answer + wait
        evicted_map.in_progress, evicted_map.is_recheck = False, step.wait >= RECHECK_US

    def _swept(self, evicted_map: EvictedMap, swept: SweepReply, now: float) -> None:
        assert evicted_map.policy is not None
        assert evicted_map.pace is not None
        evicted_map.failures, evicted_map.in_progress = 0, False
        evicted_map.pace = next_pace(evicted_map.policy, evicted_map.pace, swept.found)
        evicted_map.alarm = now + evicted_map.pace.delay_s
        if evicted_map.policy.remove_empty and swept.size == 0:
            self._maps.pop(evicted_map.context.keys.hints, None)

    def failed(self, evicted_map: EvictedMap, now: float) -> None:
        evicted_map.seat, evicted_map.in_progress, evicted_map.is_recheck = 0, False, False
        if evicted_map.pace is not None:
            evicted_map.alarm = now + evicted_map.pace.delay_s
            return
        evicted_map.alarm = now + min(FIRST_S * 2**evicted_map.failures, LONGEST_S)
        evicted_map.failures = min(evicted_map.failures + 1, 10)

    def on_message(self, channel: bytes, message: bytes) -> bool:
        """An entry ends sooner than the evictor has promised to look; answers whether the alarm has moved."""
        evicted_map = self._maps.get(channel)
        if evicted_map is None or evicted_map.policy is not None:
            return False
        if evicted_map.in_progress or evicted_map.alarm is None:
            evicted_map.more_due = True
            return False
        if not message:
            evicted_map.alarm = None
            return True
        if evicted_map.seat != EVICTOR or not message.startswith(b"due") or not message[3:].isdigit():
            return False
        ahead = int(message[3:]) * MILLISECOND - evicted_map.now
        evicted_map.alarm = min(evicted_map.alarm, evicted_map.last_answer + max(ahead, 0) / SECOND)
        return True
