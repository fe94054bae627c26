"""Jobs that come again: what there is in a topic, and ruling it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from tarry.clients.http.wire import bodies, schedule_answers, schedule_models
from tarry.programs.service.problems import UnknownSchedule
from tarry.programs.service.router import ADMIN, ANY_SCOPE, Example, RouteTable
from tarry.verbs.codecs import JSON
from tarry.verbs.jobs.options import TOPIC_DEFAULT

if TYPE_CHECKING:
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
    "GET", "/v1/schedules", scopes=ANY_SCOPE, answer_model=schedule_answers.Schedules, example=Example(answer=_LISTED)
)
async def list_all(x: ServiceRequest) -> schedule_answers.Schedules:
    """All schedules of all topics that are known."""
    names = await x.client.topics()
    found = [one for name in names for one in await x.client.schedules.list(x.topic_named(name))]
    return schedule_answers.Schedules([schedule_answers.schedule(one) for one in found])


@table.route(
    "GET", ALL, scopes=ANY_SCOPE, answer_model=schedule_answers.Schedules, example=Example(answer=_LISTED, path=_PATH)
)
async def list_of_topic(x: ServiceRequest) -> schedule_answers.Schedules:
    """All schedules of a topic, by their next occurrence; paused ones last."""
    found = await x.client.schedules.list(x.topic)
    return schedule_answers.Schedules([schedule_answers.schedule(one) for one in found])


@table.route(
    "GET",
    SCHEDULE,
    scopes=ANY_SCOPE,
    answer_model=schedule_answers.ScheduleShown,
    problem_codes=("unknown_schedule",),
    example=Example(answer=_SHOWN, path=_PATH),
)
async def get(x: ServiceRequest) -> schedule_answers.ScheduleShown:
    """The schedule as it is now."""
    found = await x.client.schedules.get(x.topic, x.path["schedule"])
    if found is None:
        raise UnknownSchedule
    return schedule_answers.schedule(found)


@table.route(
    "PUT",
    SCHEDULE,
    makes=(
        "topic",
        "schedule",
    ),
    scopes=ADMIN,
    body_model=schedule_models.PutSchedule,
    answer_model=schedule_answers.ScheduleShown,
    example=Example(schedule_models.PutSchedule(cron="0 8 1 * *", tz="Europe/Lisbon", body=_BODY), _SHOWN, _PATH),
)
async def put(x: ServiceRequest) -> schedule_answers.ScheduleShown:
    """Stores a schedule, or changes it: a job with this body so often, or by calendar. Twice is once.

    A change that leaves the rhythm as it is leaves the next occurrence, too. Where a worker's code declares a schedule of this
    name, it is refused.
    """
    payload: schedule_models.PutSchedule = x.payload
    body: bodies.Body = (b"null", JSON)
    if payload.body is not UNSET or payload.body_base64 is not None:
        body = bodies.body_of(payload.body, payload.body_base64, coded=False)
    made = await x.client.schedules.put(
        x.topic,
        x.path["schedule"],
        body,
        every=payload.every,
        cron=payload.cron,
        tz=payload.tz,
        first=payload.first,
        missed=payload.missed,
        ttr=payload.ttr,
        max_attempts=TOPIC_DEFAULT if payload.max_attempts is UNSET else payload.max_attempts,
        headers=payload.headers,
        max_lateness=payload.max_lateness,
    )
    return schedule_answers.schedule(made)


@table.route(
    "POST", SCHEDULE + "/pause", scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH)
)
async def pause(x: ServiceRequest) -> None:
    """No more jobs until `resume`. Paused twice is paused."""
    _check_exists(await x.client.schedules.pause(x.topic, x.path["schedule"]))


@table.route(
    "POST", SCHEDULE + "/resume", scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH)
)
async def resume(x: ServiceRequest) -> None:
    """Goes on with the next occurrence; what fell into the pause is left out."""
    _check_exists(await x.client.schedules.resume(x.topic, x.path["schedule"]))


@table.route("DELETE", SCHEDULE, scopes=ADMIN, problem_codes=("unknown_schedule",), example=Example(path=_PATH))
async def delete(x: ServiceRequest) -> None:
    """No more jobs; those that are there stay. What a worker's code declares comes back while it does."""
    _check_exists(await x.client.schedules.delete(x.topic, x.path["schedule"]))


def _check_exists(there: bool) -> None:
    if not there:
        raise UnknownSchedule
