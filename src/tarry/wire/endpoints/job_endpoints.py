"""Endpoints that add and pop jobs, one or many."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import msgspec

from tarry.verbs.jobs.job_values import Added
from tarry.wire import answers
from tarry.wire import job_models as models
from tarry.wire.endpoint import CONSUME, PRODUCE, Endpoint, Example, count_items, limit_of, one_job

DUE = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc)
_JOB: dict[str, Any] = {"id": "7", "topic": "orders", "body": msgspec.Raw(b'{"order": 7}'), "created": DUE}
POPPED = answers.PoppedJob(**_JOB, receipt=1800000000000000, attempt=1, due=DUE, lateness_ms=0.31, ttr_ms=60000)
SHOWN = answers.JobShown(**_JOB, state="delayed", attempts=0, due=DUE)
PATH = {"topic": "orders", "id": "7"}

ADD = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs",
    scopes=PRODUCE,
    body_model=models.Add,
    reads_body=True,
    query_model=models.AddQuery,
    returns=answers.ADDED,
    status=201,
    other_statuses={
        200: "A job with this id exists already and was kept or updated: `if_exists=keep`, `once` or `update`."
    },
    problem_codes=("job_exists", "not_kept", "topic_full", "too_large", "wrong_media", "unconfirmed"),
    example=Example(
        models.Add(body=msgspec.Raw(b'{"order": 7}'), id="7", delay="30m"),
        Added("7", True, "delayed", DUE),
        PATH,
    ),
)
ADD_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/add",
    scopes=PRODUCE,
    body_model=models.AddMany,
    returns=answers.ADDED_JOBS,
    jobs=count_items("jobs"),
    problem_codes=("job_exists", "not_kept", "topic_full", "too_large", "unconfirmed"),
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
    "/v1/topics/{topic}/pop",
    scopes=CONSUME,
    body_model=models.Pop,
    returns=answers.POPPED,
    other_statuses={204: "No job was due in time."},
    jobs=one_job,
    problem_codes=("too_large",),
    example=Example(models.Pop(wait="30s", ttr=60), POPPED, PATH),
)
POP_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/pop",
    scopes=CONSUME,
    body_model=models.PopMany,
    returns=answers.POPPED_JOBS,
    jobs=limit_of,
    example=Example(models.PopMany(limit=10, wait="30s"), answers.PoppedJobs([POPPED]), PATH),
)
POP_FROM_ANY = Endpoint(
    "POST",
    "/v1/pop",
    scopes=CONSUME,
    body_model=models.PopFromAny,
    returns=answers.POPPED_JOBS,
    jobs=limit_of,
    example=Example(models.PopFromAny(topics=["urgent", "orders"], wait="30s"), answers.PoppedJobs([POPPED])),
)
