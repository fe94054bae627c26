"""Routes for one job: add, pop, settle, and verbs by id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.http.wire import answers, bodies, models
from tarry.errors import BadInput, BodyError
from tarry.programs.service import add_jobs, idempotency
from tarry.programs.service.problems import UnknownJob, WrongMedia
from tarry.programs.service.responses import PlainResponse, Response
from tarry.programs.service.router import ANY_SCOPE, CONSUME, PRODUCE, Example, RouteTable, one_job
from tarry.programs.service.shared_queues import wait_seconds
from tarry.verbs.codecs import JSON, RAW
from tarry.verbs.jobs.holders import new_holder_of
from tarry.verbs.jobs.models import Added, Reservation

if TYPE_CHECKING:
    from tarry.clients.awaited.job import AsyncJob
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import JobInfo, State

table = RouteTable("jobs")
JOBS, JOB = "/v1/topics/{topic}/jobs", "/v1/topics/{topic}/jobs/{id}"
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
_DUE = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc)
_JOB: dict[str, Any] = {"id": "7", "topic": "orders", "body": msgspec.Raw(b'{"order": 7}'), "created": _DUE}
_POPPED = answers.PoppedJob(**_JOB, receipt=1800000000000000, attempt=1, due=_DUE, lateness_ms=0.31, ttr_ms=60000)
_FIELD = re.compile(r"[!-~\xa1-\xff]([\t -~\xa0-\xff]*[!-~\xa1-\xff])?")
FOREIGN_BODY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox"))
"""A body is foreign content: no browser may run it in the origin of this service."""
PATH = {"topic": "orders", "id": "7"}


@table.route(
    "POST",
    JOBS,
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
        Added("7", True, "delayed", _DUE),
        PATH,
    ),
)
async def add(request: ServiceRequest) -> Response:
    """Adds a job, to be handed out after a delay or at a moment.

    A body of any other type than JSON is the job's body itself, stored with its type; its options are in the query.
    With the header `Idempotency-Key` a repeated request adds nothing as long as the job exists, in whatever state, and is
    answered like the first, with 201. Differences to the first request are neither noticed nor stored. Once the job was
    finished or deleted, the request adds it again.
    """
    media = request.media()
    payload: models.Add | models.AddQuery
    headers: Mapping[str, str] | None
    if media == "application/json" or not media:
        if request.query_model != models.AddQuery():
            raise BadInput("query: put the options of a JSON request into its body.")
        job: models.Add = request.route.decode(await request.read())
        payload, body, headers = job, bodies.body_of(job.body, job.body_base64, job.coded), job.headers
    elif media in _FORM_TYPES:
        raise WrongMedia
    else:
        body, payload = (await request.read(), RAW), request.query_model
        headers = {bodies.MEDIA: request.headers[b"content-type"].decode("latin-1")}
    request.app.authorizer.count_jobs(request.credential, 1)
    topic = request.topic
    call = add_jobs.add_operation(topic, body, payload, headers, idempotency.id_source(request.headers))
    await topic.engine.register_topic(topic.name)
    added = await topic.engine.run(call)
    return Response(added, 201 if added.created else 200)


@table.route(
    "POST",
    "/v1/topics/{topic}/pop",
    scopes=CONSUME,
    body_model=models.Pop,
    gives=answers.POPPED,
    other_statuses={204: "No job was due in time."},
    jobs=one_job,
    problem_codes=("too_large",),
    example=Example(models.Pop(wait="30s", ttr=60), _POPPED, PATH),
)
async def pop(request: ServiceRequest) -> AsyncJob[bodies.Body] | None:
    """Pops the job that has been due for longest, reserved for its time to run; waits up to 60 s for one.

    A client that disconnects while it waits pops nothing.
    """
    seconds = wait_seconds(request.payload.wait)
    work = on_behalf_of(request.topic, request.payload.holder).pop_many(1, wait=seconds, ttr=request.payload.ttr)
    jobs = await request.pop_or_give_back(work, waits=bool(seconds))
    return jobs[0] if jobs else None


def on_behalf_of(topic: AsyncTopic[bodies.Body], holder: str | None) -> AsyncTopic[bodies.Body]:
    """The same topic, with the holder's name for the reservations."""
    if holder is None:
        return topic
    return AsyncTopic(topic.engine, topic.verbs.on_behalf_of(holder=new_holder_of(holder)))


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "POST",
    JOB + "/finish",
    scopes=CONSUME,
    body_model=models.Held,
    problem_codes=("stale_receipt",),
    example=Example(models.Held(1800000000000000), path=PATH),
)
async def finish(request: ServiceRequest) -> None:
    """Finishes the job: the work is done, and the job is deleted."""
    await request.topic.finish(Reservation(request.path["id"], request.payload.receipt))


@table.route(
    "POST",
    JOB + "/touch",
    scopes=CONSUME,
    body_model=models.Touch,
    problem_codes=("stale_receipt",),
    example=Example(models.Touch(1800000000000000, "1m"), path=PATH),
)
async def touch(request: ServiceRequest) -> None:
    """Renews the reservation: it lasts for `ttr` from now."""
    await request.topic.touch(Reservation(request.path["id"], request.payload.receipt), request.payload.ttr)


@table.route(
    "POST",
    JOB + "/release",
    scopes=CONSUME,
    body_model=models.Release,
    problem_codes=("stale_receipt",),
    example=Example(models.Release(1800000000000000, delay="10s", reason="The shop does not answer"), path=PATH),
)
async def release(request: ServiceRequest) -> None:
    """Gives the job back, due again after a delay or a back-off. After its last attempt it is dead instead."""
    payload = request.payload
    held = models.OneHeld(receipt=payload.receipt, id=request.path["id"], attempt=payload.attempt)
    await request.topic.release(held, payload.delay, count=payload.count, reason=payload.reason)


@table.route(
    "POST",
    JOB + "/bury",
    scopes=CONSUME,
    body_model=models.Bury,
    problem_codes=("stale_receipt",),
    example=Example(models.Bury(1800000000000000, "No such order"), path=PATH),
)
async def bury(request: ServiceRequest) -> None:
    """Sets the job aside as dead. `kick` brings it back."""
    await request.topic.bury(Reservation(request.path["id"], request.payload.receipt), request.payload.reason)


# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "GET",
    JOB,
    scopes=ANY_SCOPE,
    gives=answers.JOB,
    problem_codes=("unknown_job",),
    example=Example(answer=answers.JobShown(**_JOB, state="delayed", attempts=0, due=_DUE), path=PATH),
)
async def get(request: ServiceRequest) -> JobInfo[bodies.Body]:
    """The job as it is now."""
    job = await request.topic.get(request.path["id"])
    if job is None:
        raise UnknownJob
    return job


@table.route(
    "GET", JOB + "/body", scopes=ANY_SCOPE, gives=bytes, media="*/*", problem_codes=("unknown_job", "body_error")
)
async def body(request: ServiceRequest) -> Response:
    """The job's body, with its media type."""
    job = await request.topic.get(request.path["id"])
    if job is None:
        raise UnknownJob
    raw, flag = job.body
    return Response(
        PlainResponse(raw, "application/json" if flag == JSON else _media_of(job)), headers=FOREIGN_BODY_HEADERS
    )


def _media_of(job: JobInfo[bodies.Body]) -> str:
    """The stored media type, if it is a valid HTTP header."""
    try:
        payload = job.headers.get(bodies.MEDIA, "")
    except BodyError:
        payload = ""
    return payload if _FIELD.fullmatch(payload) else "application/octet-stream"


def was(state: State | None) -> State:
    if state is None:
        raise UnknownJob
    return state


@table.route(
    "DELETE",
    JOB,
    scopes=PRODUCE,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="delayed", path=PATH),
)
async def delete(request: ServiceRequest) -> State:
    """Deletes the job, whatever its state; its holder learns of it when it settles. Answers the state it was in."""
    return was(await request.topic.delete(request.path["id"]))


@table.route(
    "POST",
    JOB + "/kick",
    scopes=PRODUCE,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="dead", path=PATH),
)
async def kick(request: ServiceRequest) -> State:
    """Makes a dead job ready again, its attempts at 0. Answers the state it was in."""
    return was(await request.topic.kick(request.path["id"]))


@table.route(
    "POST",
    JOB + "/reschedule",
    scopes=PRODUCE,
    body_model=models.Reschedule,
    gives=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(models.Reschedule(delay="1h"), "delayed", PATH),
)
async def reschedule(request: ServiceRequest) -> State:
    """Gives a delayed or ready job another due time; reserved and dead ones stay. Answers the state it was in."""
    return was(await request.topic.reschedule(request.path["id"], delay=request.payload.delay, at=request.payload.at))
