"""Routes of schedules: jobs that come again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from tarry.clients.http.wire import bodies, schedule_answers, schedule_models
from tarry.clients.http.wire.job_options import given_options
from tarry.programs.service.problems import UnknownSchedule
from tarry.programs.service.router import ADMIN, ANY_SCOPE, Example, RouteTable
from tarry.verbs.codecs import JSON

if TYPE_CHECKING:
    from tarry.clients.schedule_verbs import Schedule
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("schedules")
ALL, SCHEDULE = "/v1/topics/{topic}/schedules", "/v1/topics/{topic}/schedules/{schedule}"
_PATH = {"topic": "letters", "schedule": "newsletter"}
_NOW = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"list": "all"}')
_SHOWN = schedule_answers.ScheduleShown(
    topic="letters", id="newsletter", body=_BODY, cron="0 8 1 * *", tz="Europe/Lisbon", missed="once",
    next=_NOW + timedelta(days=17), last=_NOW - timedelta(days=14), paused=False, fired=3, skipped=0, from_code=False, orphaned=False, changed=_NOW,
)  # fmt: skip
_LISTED = schedule_answers.Schedules([_SHOWN])


@table.route(
    "GET", "/v1/schedules", scopes=ANY_SCOPE, gives=schedule_answers.SCHEDULES, example=Example(answer=_LISTED)
)
async def list_all(request: ServiceRequest) -> list[Schedule]:
    """All schedules of all topics."""
    names = await request.client.topics()
    return [one for name in names for one in await request.client.schedules.list(request.topic_named(name))]


@table.route(
    "GET", ALL, scopes=ANY_SCOPE, gives=schedule_answers.SCHEDULES, example=Example(answer=_LISTED, path=_PATH)
)
async def list_of_topic(request: ServiceRequest) -> list[Schedule]:
    """All schedules of a topic, by their next occurrence; paused ones last."""
    return await request.client.schedules.list(request.topic)


@table.route(
    "GET",
    SCHEDULE,
    scopes=ANY_SCOPE,
    gives=schedule_answers.SCHEDULE,
    problem_codes=("unknown_schedule",),
    example=Example(answer=_SHOWN, path=_PATH),
)
async def get(request: ServiceRequest) -> Schedule:
    """The schedule's present state."""
    found = await request.client.schedules.get(request.topic, request.path["schedule"])
    if found is None:
        raise UnknownSchedule
    return found


@table.route(
    "PUT",
    SCHEDULE,
    new_names=(
        "topic",
        "schedule",
    ),
    scopes=ADMIN,
    body_model=schedule_models.PutSchedule,
    gives=schedule_answers.SCHEDULE,
    example=Example(schedule_models.PutSchedule(cron="0 8 1 * *", tz="Europe/Lisbon", body=_BODY), _SHOWN, _PATH),
)
async def put(request: ServiceRequest) -> Schedule:
    """Stores a schedule, or changes it: jobs with this body at an interval or by calendar. Repeating it changes nothing.

    A change that keeps the interval or calendar also keeps the next occurrence. It is refused if a worker's code declares a
    schedule of this name.
    """
    payload: schedule_models.PutSchedule = request.payload
    body: bodies.Body = (b"null", JSON)
    if payload.body is not UNSET or payload.body_base64 is not None:
        body = bodies.body_of(payload.body, payload.body_base64, coded=False)
    return await request.client.schedules.put(
        request.topic,
        request.path["schedule"],
        body,
        every=payload.every,
        cron=payload.cron,
        tz=payload.tz,
        first=payload.first,
        missed=payload.missed,
        **given_options(payload),
    )


@table.route(
    "POST", SCHEDULE + "/pause", scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH)
)
async def pause(request: ServiceRequest) -> None:
    """Makes no more jobs until `resume`. Pausing a paused one changes nothing."""
    _check_exists(await request.client.schedules.pause(request.topic, request.path["schedule"]))


@table.route(
    "POST", SCHEDULE + "/resume", scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH)
)
async def resume(request: ServiceRequest) -> None:
    """Goes on with the next occurrence; those during the pause are skipped."""
    _check_exists(await request.client.schedules.resume(request.topic, request.path["schedule"]))


@table.route("DELETE", SCHEDULE, scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH))
async def delete(request: ServiceRequest) -> None:
    """Deletes the schedule; jobs that it has made stay. A schedule that a worker's code declares comes back."""
    _check_exists(await request.client.schedules.delete(request.topic, request.path["schedule"]))


def _check_exists(exists: bool) -> None:
    if not exists:
        raise UnknownSchedule
