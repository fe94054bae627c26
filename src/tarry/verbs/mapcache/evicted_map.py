"""A map that a client evicts from. Each map has one evictor and its deputy; other clients that have it open look now and then.

The script knows which clients will look in time (lua/lib/seats.lua): the evictor, when the next entry expires and every 5 s; its
deputy, when the evictor is a second late. All others look every 5 s. With the policy ``adaptive`` Redisson's latch decides.
"""

from __future__ import annotations

from typing import Any

from tarry.core.duties import Duty, SeatedDuty
from tarry.core.requests import Flow, ScriptCall, ask
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.eviction import (
    EVICTOR,
    AdaptivePolicy,
    EvictReply,
    SweepReply,
    evict,
    evict_step,
    next_pace,
    sweep,
)


class EvictedMap(SeatedDuty):
    """One map that this client evicts from."""

    IDLE_WAIT_S, SHARE_PIPELINE_S = 4.9, 2.5

    def __init__(self, context: MapContext[Any, Any], evictor_id: bytes) -> None:
        super().__init__(context.keys.hints, f"The map {context.name}", "cleared of expired entries", evictor_id)
        self.context = context

    def check(self) -> Flow[tuple[int, EvictReply]]:
        return evict(self.context, evictor_id=self.client_id, keeps_seat=True)

    def checked(self, result: tuple[int, EvictReply], sent: float, now: float) -> None:
        last = result[1]
        self._seated(last.seat, last.now, last.wait, sent, now, more=bool(last.more))

    def channels(self) -> tuple[bytes, ...]:
        return (self.key,)

    def on_message(self, channel: bytes, message: bytes) -> None:  # noqa: ARG002  # there is one channel
        """An entry expires before the alarm: only the evictor needs to know."""
        if self.seat == EVICTOR and message.startswith(b"due") and message[3:].isdigit():
            self._due_at(message[3:])

    def leave_request(self) -> ScriptCall[EvictReply] | None:
        return evict_step(self.context, evictor_id=self.client_id) if self.seat else None


class SweptMap(Duty):
    """One map that this client evicts from by Redisson's rule. The first look comes after the shortest delay."""

    def __init__(self, context: MapContext[Any, Any], policy: AdaptivePolicy, now: float) -> None:
        super().__init__(context.keys.hints, f"The map {context.name}", "cleared of expired entries")
        self._context = context
        self._policy = policy
        self._pace = policy.begin()
        self.alarm = now + self._pace.delay_s

    def check(self) -> Flow[SweepReply]:
        return ask(sweep(self._context, self._policy, self._pace))

    def checked(self, result: SweepReply, sent: float, now: float) -> None:  # noqa: ARG002  # no seat to be in time for
        self._pace = next_pace(self._policy, self._pace, result.found)
        self.alarm = now + self._pace.delay_s
        self.ended = self._policy.remove_empty and result.size == 0

    def failed(self, now: float) -> None:
        self.alarm = now + self._pace.delay_s
