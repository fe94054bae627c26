"""Endpoints for many jobs at once: one request, and a script for each thousand."""

from __future__ import annotations

import msgspec

from tarry.clients.http.wire import answers, models
from tarry.clients.http.wire.endpoint import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Endpoint, Example, count_items, count_n
from tarry.clients.http.wire.endpoints.jobs import DUE, PATH, POPPED
from tarry.clients.http.wire.schemas import NOTHING
from tarry.verbs.jobs.models import Added

_HELD = [models.OneHeld(1800000000000000, "7")]
_WHO = {"topic": "orders", "holder": "worker-3"}

ADD = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/add",
    new_names=("topic",),
    scopes=PRODUCE,
    body_model=models.AddMany,
    gives=answers.ADDED_JOBS,
    jobs=count_items("jobs"),
    problem_codes=("job_exists", "too_large", "unconfirmed"),
    example=Example(
        models.AddMany(
            jobs=[
                models.OneOfMany(body=msgspec.Raw(b'{"order": 7}'), id="7"),
                models.OneOfMany(body=msgspec.Raw(b'{"order": 8}'), delay="1h"),
            ],
            delay="30m",
        ),
        [Added("7", True, "delayed", DUE)],
        PATH,
    ),
)
POP = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/pop",
    scopes=CONSUME,
    body_model=models.PopMany,
    gives=answers.POPPED_JOBS,
    jobs=count_n,
    example=Example(models.PopMany(n=10, wait="30s"), answers.PoppedJobs([POPPED]), PATH),
)
POP_FROM_ANY = Endpoint(
    "POST",
    "/v1/pop",
    scopes=CONSUME,
    body_model=models.PopFromAny,
    gives=answers.POPPED_JOBS,
    jobs=count_n,
    example=Example(models.PopFromAny(topics=["urgent", "orders"], wait="30s"), answers.PoppedJobs([POPPED])),
)
FINISH = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/finish",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.FinishMany,
    problem_codes=("stale_receipt",),
    example=Example(models.FinishMany(_HELD), path=PATH),
)
TOUCH = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/touch",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.TouchMany,
    problem_codes=("stale_receipt",),
    example=Example(models.TouchMany(_HELD, "1m"), path=PATH),
)
RELEASE = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/release",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.ReleaseMany,
    problem_codes=("stale_receipt",),
    example=Example(models.ReleaseMany(_HELD, delay="10s"), path=PATH),
)
BURY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/bury",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.BuryMany,
    problem_codes=("stale_receipt",),
    example=Example(models.BuryMany(_HELD, "No such order"), path=PATH),
)
GET = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/get",
    scopes=ANY_SCOPE,
    body_model=models.Several,
    gives=answers.JOBS,
    example=Example(models.Several(["7"]), [None], PATH),
)
DELETE = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/delete",
    scopes=PRODUCE,
    body_model=models.Several,
    gives=answers.WERE_MANY,
    example=Example(models.Several(["7"]), ["delayed"], PATH),
)
KICK = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/kick",
    scopes=PRODUCE,
    body_model=models.Several,
    gives=answers.WERE_MANY,
    example=Example(models.Several(["7"]), ["dead"], PATH),
)
RESCHEDULE = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/reschedule",
    scopes=PRODUCE,
    body_model=models.RescheduleMany,
    gives=answers.WERE_MANY,
    example=Example(models.RescheduleMany(ids=["7"], delay="1h"), ["delayed"], PATH),
)
RELEASE_HOLDER = Endpoint(
    "POST",
    "/v1/topics/{topic}/holders/{holder}/release",
    scopes=ADMIN,
    body_model=models.HolderRelease,
    gives=answers.COUNT,
    example=Example(models.HolderRelease(), 3, _WHO),
)
TOUCH_HOLDER = Endpoint(
    "POST",
    "/v1/topics/{topic}/holders/{holder}/touch",
    scopes=ADMIN,
    body_model=models.HolderTouch,
    gives=answers.COUNT,
    example=Example(models.HolderTouch("1m"), 3, _WHO),
)
