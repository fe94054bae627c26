"""Answers about schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from tarry.clients.http.wire.answers import Carried, carried_contents, carried_fields
from tarry.clients.http.wire.schemas import Schema, SharedFields
from tarry.clients.http.wire.types import Milliseconds, Moment, ms
from tarry.clients.schedule_verbs import Schedule
from tarry.errors import BodyError
from tarry.values.durations import MILLISECOND, as_timedelta
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import contents
from tarry.verbs.schedules.records import Missed
from tarry.verbs.schedules.recurrences import Recurrence


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


_FIELDS = SharedFields(ScheduleShown, Carried, "ttr_ms", "max_attempts", "max_lateness_ms")


def _dump(now: Schedule) -> ScheduleShown:
    return ScheduleShown(**carried_fields(now), **_FIELDS.dump(now), **_of_jobs(now))


def _of_jobs(now: Schedule) -> dict[str, Any]:
    """The options of the schedule's jobs; empty where they cannot be read."""
    try:
        head = now.head
    except BodyError:
        return {}
    fields: dict[str, Any] = {}
    if head.ttr_ms:
        fields["ttr_ms"] = head.ttr_ms
    if head.max_attempts:
        fields["max_attempts"] = None if head.max_attempts == contents.NO_LIMIT else head.max_attempts
    if head.max_lateness_us is not None:
        fields["max_lateness_ms"] = ms(as_timedelta(head.max_lateness_us))
    return fields


def _load(now: ScheduleShown, codec: BodyCodec[Any]) -> Schedule:
    recurrence = Recurrence(
        0 if now.every_ms is None else round(now.every_ms * MILLISECOND), now.cron or "", now.tz or "UTC"
    )
    return Schedule(
        topic=now.topic,
        id=now.id,
        **_FIELDS.load(now),
        _codec=codec,
        _recurrence=recurrence,
        _record=_contents_of(now),
    )


def _contents_of(now: ScheduleShown) -> contents.Record:
    """The fields of the schedule's jobs; nothing, where the service could not read it."""
    if now.body is UNSET and now.body_base64 is None:
        return b""
    max_lateness_us = None if now.max_lateness_ms is None else round(now.max_lateness_ms * MILLISECOND)
    attempts = 0 if now.max_attempts is UNSET else contents.NO_LIMIT if now.max_attempts is None else now.max_attempts
    return carried_contents(now, 0, now.ttr_ms or 0, attempts, max_lateness_us)


def _dump_all(schedules: list[Schedule]) -> Schedules:
    return Schedules([_dump(one) for one in schedules])


def _load_all(found: Schedules, codec_of: Callable[[str], BodyCodec[Any]]) -> list[Schedule]:
    return [_load(one, codec_of(one.topic)) for one in found.schedules]


SCHEDULE: Schema[Schedule] = Schema(ScheduleShown, _dump, _load)
SCHEDULES: Schema[list[Schedule]] = Schema(Schedules, _dump_all, _load_all)
