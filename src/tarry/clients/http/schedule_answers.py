"""What requests about schedules are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.clients.http.answers import Carried, Milliseconds, carried, ms
from tarry.clients.http.models import Moment
from tarry.verbs.schedules.plans import Missed

if TYPE_CHECKING:
    from tarry.clients.scheduling import Schedule


class ScheduleShown(Carried, kw_only=True):
    """A schedule as it is now. ``next`` is left out while it is paused; ``orphaned``: no worker's code declares it any more."""

    every_ms: Milliseconds | None = None
    cron: str | None = None
    tz: str | None = None
    missed: Missed
    next: Moment | None = None
    paused: bool
    fired: int
    skipped: int
    from_code: bool
    orphaned: bool
    changed: Moment


class Schedules(Struct):
    """By topic, then by the next occurrence; paused ones last."""

    schedules: list[ScheduleShown]


def schedule(now: Schedule) -> ScheduleShown:
    return ScheduleShown(
        **carried(now),
        every_ms=None if now.every is None else ms(now.every),
        cron=now.cron,
        tz=now.tz,
        missed=now.missed,
        next=now.next,
        paused=now.paused,
        fired=now.fired,
        skipped=now.skipped,
        from_code=now.from_code,
        orphaned=now.orphaned,
        changed=now.changed,
    )
