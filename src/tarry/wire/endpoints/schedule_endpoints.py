"""Endpoints of schedules: jobs that come again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tarry.errors import BodyError
from tarry.values.durations import MILLISECOND, as_timedelta
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import job_fields as contents
from tarry.verbs.jobs.schedule_info import Schedule
from tarry.verbs.schedules.records import Missed
from tarry.verbs.schedules.recurrences import Recurrence
from tarry.wire.answers import Carried, carried_contents, carried_fields
from tarry.wire.endpoint import ADMIN, ANY_SCOPE, Endpoint, Example
from tarry.wire.schemas import NOTHING, Schema, SharedFields
from tarry.wire.types import (
    NO_DOTS,
    AnyJson,
    Attempts,
    Base64,
    Headers,
    Key,
    Milliseconds,
    Moment,
    Period,
    Priority,
    SomeSpan,
    Strict,
    Ttr,
    ms,
    with_pattern,
)

_NAME = r"[^\s\x00-\x1f\x7f-\x9f{}]+$"
_BYTES = Meta(description="1 to 160 bytes of UTF-8")
ScheduleId = Annotated[str, with_pattern(NO_DOTS + _NAME, minLength=1, maxLength=160), _BYTES]


class PutSchedule(Strict):
    """``every``, or ``cron`` in the time zone ``tz``. ``first``: the first moment of ``every``. Without a body it is ``null``.

    ``missed``: what becomes of occurrences at which no client popped. The rest is as for a job.
    """

    every: Period | None = None
    cron: Annotated[str, Meta(max_length=200)] | None = None
    tz: Annotated[str, Meta(max_length=100)] = "UTC"
    first: Moment | None = None
    missed: Missed = "once"
    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    ttr: Ttr | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeSpan | None = None
    priority: Priority | None = None
    key: Key | None = None
    headers: Headers | None = None


class ScheduleShown(Carried, kw_only=True):
    """A schedule as it is now. ``next`` is left out while it is paused; one that is past waits for a client that pops, or for room in a full
    topic. ``orphaned``: no worker's code declares it any more;
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


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PATH = {"topic": "letters", "schedule": "newsletter"}
_NOW = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"list": "all"}')
_SHOWN = ScheduleShown(
    topic="letters", id="newsletter", body=_BODY, cron="0 8 1 * *", tz="Europe/Lisbon", missed="once",
    next=_NOW + timedelta(days=17), last=_NOW - timedelta(days=14), paused=False, fired=3, skipped=0, from_code=False, orphaned=False, changed=_NOW,
)  # fmt: skip
_LISTED = Schedules([_SHOWN])

LIST_ALL = Endpoint(
    "GET",
    "/v1/schedules",
    scopes=ANY_SCOPE,
    returns=SCHEDULES,
    example=Example(answer=_LISTED),
)
LIST_OF_TOPIC = Endpoint(
    "GET",
    "/v1/topics/{topic}/schedules",
    scopes=ANY_SCOPE,
    returns=SCHEDULES,
    example=Example(answer=_LISTED, path=_PATH),
)
GET = Endpoint(
    "GET",
    "/v1/topics/{topic}/schedules/{schedule}",
    scopes=ANY_SCOPE,
    returns=SCHEDULE,
    problem_codes=("unknown_schedule",),
    example=Example(answer=_SHOWN, path=_PATH),
)
PUT = Endpoint(
    "PUT",
    "/v1/topics/{topic}/schedules/{schedule}",
    scopes=ADMIN,
    body_model=PutSchedule,
    returns=SCHEDULE,
    example=Example(PutSchedule(cron="0 8 1 * *", tz="Europe/Lisbon", body=_BODY), _SHOWN, _PATH),
)
PAUSE = Endpoint(
    "POST",
    "/v1/topics/{topic}/schedules/{schedule}/pause",
    scopes=ADMIN,
    returns=NOTHING,
    problem_codes=("unknown_schedule",),
    example=Example(path=_PATH),
)
RESUME = Endpoint(
    "POST",
    "/v1/topics/{topic}/schedules/{schedule}/resume",
    scopes=ADMIN,
    returns=NOTHING,
    problem_codes=("unknown_schedule",),
    example=Example(path=_PATH),
)
DELETE = Endpoint(
    "DELETE",
    "/v1/topics/{topic}/schedules/{schedule}",
    scopes=ADMIN,
    returns=NOTHING,
    problem_codes=("unknown_schedule",),
    example=Example(path=_PATH),
)
