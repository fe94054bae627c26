"""Endpoints of schedules: jobs that come again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec

from tarry.clients.http.wire import schedule_answers, schedule_models
from tarry.clients.http.wire.endpoint import ADMIN, ANY_SCOPE, Endpoint, Example
from tarry.clients.http.wire.schemas import NOTHING

_PATH = {"topic": "letters", "schedule": "newsletter"}
_NOW = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"list": "all"}')
_SHOWN = schedule_answers.ScheduleShown(
    topic="letters", id="newsletter", body=_BODY, cron="0 8 1 * *", tz="Europe/Lisbon", missed="once",
    next=_NOW + timedelta(days=17), last=_NOW - timedelta(days=14), paused=False, fired=3, skipped=0, from_code=False, orphaned=False, changed=_NOW,
)  # fmt: skip
_LISTED = schedule_answers.Schedules([_SHOWN])

LIST_ALL = Endpoint(
    "GET",
    "/v1/schedules",
    scopes=ANY_SCOPE,
    returns=schedule_answers.SCHEDULES,
    example=Example(answer=_LISTED),
)
LIST_OF_TOPIC = Endpoint(
    "GET",
    "/v1/topics/{topic}/schedules",
    scopes=ANY_SCOPE,
    returns=schedule_answers.SCHEDULES,
    example=Example(answer=_LISTED, path=_PATH),
)
GET = Endpoint(
    "GET",
    "/v1/topics/{topic}/schedules/{schedule}",
    scopes=ANY_SCOPE,
    returns=schedule_answers.SCHEDULE,
    problem_codes=("unknown_schedule",),
    example=Example(answer=_SHOWN, path=_PATH),
)
PUT = Endpoint(
    "PUT",
    "/v1/topics/{topic}/schedules/{schedule}",
    new_names=(
        "topic",
        "schedule",
    ),
    scopes=ADMIN,
    body_model=schedule_models.PutSchedule,
    returns=schedule_answers.SCHEDULE,
    example=Example(schedule_models.PutSchedule(cron="0 8 1 * *", tz="Europe/Lisbon", body=_BODY), _SHOWN, _PATH),
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
