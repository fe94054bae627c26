"""Endpoints for one job: add, pop, settle, and verbs by id."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from tarry.clients.http.wire import answers, models
from tarry.clients.http.wire.endpoint import ANY_SCOPE, CONSUME, PRODUCE, Endpoint, Example, one_job
from tarry.clients.http.wire.schemas import NOTHING
from tarry.verbs.jobs.models import Added

DUE = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc)
_JOB: dict[str, Any] = {"id": "7", "topic": "orders", "body": msgspec.Raw(b'{"order": 7}'), "created": DUE}
POPPED = answers.PoppedJob(**_JOB, receipt=1800000000000000, attempt=1, due=DUE, lateness_ms=0.31, ttr_ms=60000)
PATH = {"topic": "orders", "id": "7"}

ADD = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs",
    new_names=("topic",),
    scopes=PRODUCE,
    body_model=models.Add,
    reads_body=True,
    query_model=models.AddQuery,
    gives=answers.ADDED,
    status=201,
    other_statuses={200: "A job with this id exists already and was kept: `if_exists=keep`."},
    problem_codes=("job_exists", "too_large", "wrong_media", "unconfirmed"),
    example=Example(
        models.Add(body=msgspec.Raw(b'{"order": 7}'), id="7", delay="30m"),
        Added("7", True, "delayed", DUE),
        PATH,
    ),
)
POP = Endpoint(
    "POST",
    "/v1/topics/{topic}/pop",
    scopes=CONSUME,
    body_model=models.Pop,
    gives=answers.POPPED,
    other_statuses={204: "No job was due in time."},
    jobs=one_job,
    problem_codes=("too_large",),
    example=Example(models.Pop(wait="30s", ttr=60), POPPED, PATH),
)
FINISH = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/finish",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.Held,
    problem_codes=("stale_receipt",),
    example=Example(models.Held(1800000000000000), path=PATH),
)
TOUCH = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/touch",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.Touch,
    problem_codes=("stale_receipt",),
    example=Example(models.Touch(1800000000000000, "1m"), path=PATH),
)
RELEASE = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/release",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.Release,
    problem_codes=("stale_receipt",),
    example=Example(models.Release(1800000000000000, delay="10s", reason="The shop does not answer"), path=PATH),
)
BURY = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/bury",
    scopes=CONSUME,
    gives=NOTHING,
    body_model=models.Bury,
    problem_codes=("stale_receipt",),
    example=Example(models.Bury(1800000000000000, "No such order"), path=PATH),
)
GET = Endpoint(
    "GET",
    "/v1/topics/{topic}/jobs/{id}",
    scopes=ANY_SCOPE,
    gives=answers.JOB,
    problem_codes=("unknown_job",),
    example=Example(answer=answers.JobShown(**_JOB, state="delayed", attempts=0, due=DUE), path=PATH),
)
BODY = Endpoint(
    "GET",
    "/v1/topics/{topic}/jobs/{id}/body",
    scopes=ANY_SCOPE,
    gives=bytes,
    media="*/*",
    problem_codes=("unknown_job", "body_error"),
)
DELETE = Endpoint(
    "DELETE",
    "/v1/topics/{topic}/jobs/{id}",
    scopes=PRODUCE,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="delayed", path=PATH),
)
KICK = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/kick",
    scopes=PRODUCE,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="dead", path=PATH),
)
RESCHEDULE = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/reschedule",
    scopes=PRODUCE,
    body_model=models.Reschedule,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(models.Reschedule(delay="1h"), "delayed", PATH),
)
