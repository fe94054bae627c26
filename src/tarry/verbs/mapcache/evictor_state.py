"""Which maps a client evicts, and when. Each map has one evictor and its deputy; other clients that have it open look now and
then.

    EvictorState ── maps, each with an alarm ──▶  evict_step  ──▶  the next alarm, and the seat
                                    ▲
    hints ── an entry expires sooner (only the evictor needs it)

The script knows which clients will look in time (lua/lib/seats.lua): the evictor, when the next entry expires and every 5 s;
its
deputy, when the evictor is a second late. All others look every 5 s. With the policy ``adaptive`` Redisson's latch decides.

Nothing here does I/O or knows the time: a driver asks for the maps that are due, performs the steps, and reports the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

from tarry.core.patience import RetryDelay
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
"""If an answer is read later than this, the process was probably frozen meanwhile."""
BUNDLE_WITHIN_S = 2.5
"""A recheck may come early by this, to share a round trip with another map."""
RECHECK_US = 4_900_000
"""A client whose next look is so far away has no seat: its look is a recheck."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""The delays after an error: the first, which is doubled, and the longest."""


class EvictedMap:
    """One map that this client evicts."""

    __slots__ = (
        "alarm",
        "back_off",
        "context",
        "evictor_id",
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
        self.alarm: float | None = None  #: when to evict next; ``None``: now
        self.in_progress = False  #: a step is in progress …
        self.more_due = False  #: … and a hint that came meanwhile may be newer than its answer
        self.is_recheck = False  #: no entry is known to expire before the alarm
        self.seat = 0
        self.back_off = RetryDelay(FIRST_S, LONGEST_S)
        self.pace = policy.begin() if policy else None
        self.last_answer = 0.0  #: when the last answer came, by the driver's clock …
        self.now = 0  #: … and by the server's

    def first_step(self) -> ScriptCall[Any]:
        """The request of the first step."""
        self.in_progress, self.more_due = True, False
        if self.policy is not None and self.pace is not None:
            return sweep(self.context, self.policy, self.pace)
        return evict_step(self.context, evictor_id=self.evictor_id, keeps_seat=True)

    def leave_request(self) -> ScriptCall[Any] | None:
        """The request that gives the seat back, so that it is free at once."""
        return evict_step(self.context, evictor_id=self.evictor_id) if self.seat else None


class EvictorState:
    """The maps that one client evicts. Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._maps: dict[bytes, EvictedMap] = {}

    def __len__(self) -> int:
        return len(self._maps)

    def add(
        self, context: MapContext[Any, Any], policy: AdaptivePolicy | None, user: int, now: float
    ) -> EvictedMap | None:
        """Adds a map for a user; returns it if it is new. With Redisson's rule the first look comes after the shortest delay."""
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
        """Whether it evicts the map for this user."""
        return key in self._maps and user in self._maps[key].users

    def remove(self, key: bytes, user: int) -> EvictedMap | None:
        """Removes a user of a map; returns the map if it was the last."""
        evicted_map = self._maps.get(key)
        if evicted_map is None:
            return None
        evicted_map.users.discard(user)
        return self._maps.pop(key) if not evicted_map.users else None

    @property
    def maps(self) -> list[EvictedMap]:
        return list(self._maps.values())

    def due(self, now: float) -> list[EvictedMap]:
        """The maps whose alarm is due; and those whose recheck is due soon, so that all share a round trip."""
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
        """When the next alarm is due."""
        return min((evicted_map.alarm or 0.0 for evicted_map in self._maps.values()), default=float("inf"))

    def on_step(self, evicted_map: EvictedMap, step: Any, sent: float, now: Callable[[], float]) -> Flow[None] | None:
        """Takes the answer of a first step; returns the remaining work, if any."""
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
        """Sets the next alarm; clients without a seat look a little earlier than the script says, each by another share."""
        evicted_map.seat = step.seat
        evicted_map.back_off.reset()
        evicted_map.last_answer, evicted_map.now = min(now, sent + FROZEN_S), step.now
        wait = step.wait / SECOND * (1 if step.seat else 1 - crc32(evicted_map.evictor_id) % 100 / 1000)
        evicted_map.alarm = None if step.more or evicted_map.more_due else evicted_map.last_answer + wait
        evicted_map.in_progress, evicted_map.is_recheck = False, step.wait >= RECHECK_US

    def _swept(self, evicted_map: EvictedMap, swept: SweepReply, now: float) -> None:
        assert evicted_map.policy is not None
        assert evicted_map.pace is not None
        evicted_map.back_off.reset()
        evicted_map.in_progress = False
        evicted_map.pace = next_pace(evicted_map.policy, evicted_map.pace, swept.found)
        evicted_map.alarm = now + evicted_map.pace.delay_s
        if evicted_map.policy.remove_empty and swept.size == 0:
            self._maps.pop(evicted_map.context.keys.hints, None)

    def failed(self, evicted_map: EvictedMap, now: float) -> None:
        evicted_map.seat, evicted_map.in_progress, evicted_map.is_recheck = 0, False, False
        if evicted_map.pace is not None:
            evicted_map.alarm = now + evicted_map.pace.delay_s
            return
        evicted_map.alarm = now + evicted_map.back_off.next_delay()

    def on_message(self, channel: bytes, message: bytes) -> bool:
        """An entry expires before the alarm. Returns whether the alarm has moved."""
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
