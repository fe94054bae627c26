"""Answers about schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType

from tarry.clients.http.wire.answers import Carried, carried_fields
from tarry.clients.http.wire.types import Milliseconds, Moment, ms
from tarry.errors import BodyError
from tarry.values.durations import as_timedelta
from tarry.verbs.jobs import records
from tarry.verbs.schedules.records import Missed

if TYPE_CHECKING:
    from tarry.clients.schedule_verbs import Schedule


class ScheduleShown(Carried, kw_only=True):
    """A schedule as it is now. ``next`` is left out while it is paused; ``orphaned``: no worker's code declares it any more;
    ``damaged``: what is stored cannot be read, put it again or delete it.

    ``last``: the last occurrence that was handled since it was changed. ``version`` marks the definition that code declared
    last, ``declared`` says when. ``ttr_ms``, ``max_attempts`` (``null``: no limit) and ``max_lateness_ms`` are those of its jobs,
    left out where the topic's hold.
    """

    every_ms: Milliseconds | None = None
    cron: str | None = None
    tz: str | None = None
    missed: Missed
    next: Moment | None = None
    last: Moment | None = None
    paused: bool
    fired: int
    skipped: int
    from_code: bool
    orphaned: bool
    version: str | None = None
    declared: Moment | None = None
    changed: Moment
    damaged: bool = False
    ttr_ms: Milliseconds | None = None
    max_attempts: int | UnsetType | None = UNSET
    max_lateness_ms: Milliseconds | None = None


class Schedules(Struct):
    """By topic, then by the next occurrence; paused ones last."""

    schedules: list[ScheduleShown]


def schedule(now: Schedule) -> ScheduleShown:
    return ScheduleShown(
        **carried_fields(now),
        every_ms=None if now.every is None else ms(now.every),
        cron=now.cron,
        tz=now.tz,
        missed=now.missed,
        next=now.next,
        last=now.last,
        paused=now.paused,
        fired=now.fired,
        skipped=now.skipped,
        from_code=now.from_code,
        orphaned=now.orphaned,
        version=now.version,
        declared=now.declared,
        changed=now.changed,
        damaged=now.damaged,
        **_of_jobs(now),
    )


def _of_jobs(now: Schedule) -> dict[str, Any]:
    """The options of the schedule's jobs; empty where they cannot be read."""
    try:
        head = now.head
    except BodyError:
        return {}
    said: dict[str, Any] = {}
    if head.ttr_ms:
        said["ttr_ms"] = head.ttr_ms
    if head.max_attempts:
        said["max_attempts"] = None if head.max_attempts == records.NO_LIMIT else head.max_attempts
    if head.latest is not None:
        said["max_lateness_ms"] = ms(as_timedelta(head.latest))
    return said
