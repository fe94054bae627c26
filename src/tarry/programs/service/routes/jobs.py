"""Jobs, one by one: in, out, settled, minded."""

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
from tarry.verbs.jobs.models import Reservation

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import JobInfo

table = RouteTable("jobs")
JOBS, JOB = "/v1/topics/{topic}/jobs", "/v1/topics/{topic}/jobs/{id}"
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
_DUE = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc)
_JOB: dict[str, Any] = {"id": "7", "topic": "orders", "body": msgspec.Raw(b'{"order": 7}'), "created": _DUE}
_POPPED = answers.PoppedJob(**_JOB, receipt=1800000000000000, attempt=1, due=_DUE, lateness_ms=0.31, ttr_ms=60000)
_FIELD = re.compile(r"[!-~\xa1-\xff]([\t -~\xa0-\xff]*[!-~\xa1-\xff])?")
FOREIGN_BODY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox"))
"""A body is somebody else's: no browser may run it as if it came from here."""
PATH = {"topic": "orders", "id": "7"}


@table.route(
    "POST",
    JOBS,
    makes=("topic",),
    scopes=PRODUCE,
    body_model=models.Add,
    reads_body=True,
    query_model=models.AddQuery,
    answer_model=answers.AddedJob,
    status=201,
    other_statuses={200: "A job with this id was there already, and stays: `if_exists=keep`."},
    problem_codes=("job_exists", "too_large", "wrong_media", "unconfirmed"),
    example=Example(
        models.Add(body=msgspec.Raw(b'{"order": 7}'), id="7", delay="30m"),
        answers.AddedJob("7", True, "delayed", _DUE),
        PATH,
    ),
)
async def add(x: ServiceRequest) -> Response:
    """Puts a job in, to be handed out after a delay or at a moment.

    A body of any other type than JSON is the job's body itself, kept with its type; its options stand in the query.
    With the header `Idempotency-Key` a repeated request adds nothing as long as the job is there, in whatever state, and is
    answered like the first, with 201. It must say the same: what differs is neither compared nor stored. Once the job was
    finished or deleted, the request adds it anew.
    """
    media = x.media()
    payload: models.Add | models.AddQuery
    headers: Mapping[str, str] | None
    if media == "application/json" or not media:
        if x.query_model != models.AddQuery():
            raise BadInput("query: the options of a JSON body stand in the body.")
        job: models.Add = x.route.decode(await x.read())
        payload, body, headers = job, bodies.body_of(job.body, job.body_base64, job.coded), job.headers
    elif media in _FORM_TYPES:
        raise WrongMedia
    else:
        body, payload = (await x.read(), RAW), x.query_model
        headers = {bodies.MEDIA: x.headers[b"content-type"].decode("latin-1")}
    x.app.authorizer.count(x, 1)
    topic = x.topic
    call = add_jobs.add_operation(topic, body, payload, headers, idempotency.id_source(x.headers))
    await topic.engine.register_topic(topic.name)
    added = await topic.engine.run(call)
    return Response(answers.added_job(added), 201 if added.created else 200)


@table.route(
    "POST",
    "/v1/topics/{topic}/pop",
    scopes=CONSUME,
    body_model=models.Pop,
    answer_model=answers.PoppedJob,
    other_statuses={204: "None was due in time."},
    jobs=one_job,
    problem_codes=("too_large",),
    example=Example(models.Pop(wait="30s", ttr=60), _POPPED, PATH),
)
async def pop(x: ServiceRequest) -> answers.PoppedJob | None:
    """The job that has been due for longest, reserved for its time to run; waits up to 60 s for one.

    A client that goes while it waits is handed nothing.
    """
    seconds = wait_seconds(x.payload.wait)
    work = on_behalf_of(x.topic, x.payload.holder).pop_many(1, wait=seconds, ttr=x.payload.ttr)
    jobs = await x.pop_or_return(work, waits=bool(seconds))
    return answers.popped_job(jobs[0]) if jobs else None


def on_behalf_of(topic: AsyncTopic[bodies.Body], holder: str | None) -> AsyncTopic[bodies.Body]:
    """The same topic in the name of whoever takes."""
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
async def finish(x: ServiceRequest) -> None:
    """The work is done: the job is gone."""
    await x.topic.finish(Reservation(x.path["id"], x.payload.receipt))


@table.route(
    "POST",
    JOB + "/touch",
    scopes=CONSUME,
    body_model=models.Touch,
    problem_codes=("stale_receipt",),
    example=Example(models.Touch(1800000000000000, "1m"), path=PATH),
)
async def touch(x: ServiceRequest) -> None:
    """More time: the reservation lasts so long from now."""
    await x.topic.touch(Reservation(x.path["id"], x.payload.receipt), x.payload.ttr)


@table.route(
    "POST",
    JOB + "/release",
    scopes=CONSUME,
    body_model=models.Release,
    problem_codes=("stale_receipt",),
    example=Example(models.Release(1800000000000000, delay="10s", reason="The shop does not answer"), path=PATH),
)
async def release(x: ServiceRequest) -> None:
    """Back with it, due again after a delay, or a back-off. The last attempt that counts makes it dead."""
    payload = x.payload
    held = models.OneHeld(receipt=payload.receipt, id=x.path["id"], attempt=payload.attempt)
    await x.topic.release(held, payload.delay, count=payload.count, reason=payload.reason)


@table.route(
    "POST",
    JOB + "/bury",
    scopes=CONSUME,
    body_model=models.Bury,
    problem_codes=("stale_receipt",),
    example=Example(models.Bury(1800000000000000, "No such order"), path=PATH),
)
async def bury(x: ServiceRequest) -> None:
    """Sets it aside as dead. `kick` brings it back."""
    await x.topic.bury(Reservation(x.path["id"], x.payload.receipt), x.payload.reason)


# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "GET",
    JOB,
    scopes=ANY_SCOPE,
    answer_model=answers.JobShown,
    problem_codes=("unknown_job",),
    example=Example(answer=answers.JobShown(**_JOB, state="delayed", attempts=0, due=_DUE), path=PATH),
)
async def get(x: ServiceRequest) -> answers.JobShown:
    """The job as it is now."""
    job = await x.topic.get(x.path["id"])
    if job is None:
        raise UnknownJob
    return answers.job_shown(job)


@table.route(
    "GET", JOB + "/body", scopes=ANY_SCOPE, answer_model=bytes, media="*/*", problem_codes=("unknown_job", "body_error")
)
async def body(x: ServiceRequest) -> Response:
    """The job's body itself, with its type."""
    job = await x.topic.get(x.path["id"])
    if job is None:
        raise UnknownJob
    raw, flag = job.body
    return Response(
        PlainResponse(raw, "application/json" if flag == JSON else _media_of(job)), headers=FOREIGN_BODY_HEADERS
    )


def _media_of(job: JobInfo[bodies.Body]) -> str:
    """The type that its header says, where that can be a header of HTTP."""
    try:
        payload = job.headers.get(bodies.MEDIA, "")
    except BodyError:
        payload = ""
    return payload if _FIELD.fullmatch(payload) else "application/octet-stream"


def was(state: Any) -> answers.Was:
    if state is None:
        raise UnknownJob
    return answers.Was(state)


@table.route(
    "DELETE",
    JOB,
    scopes=PRODUCE,
    answer_model=answers.Was,
    problem_codes=("unknown_job",),
    example=Example(answer=answers.Was("delayed"), path=PATH),
)
async def delete(x: ServiceRequest) -> answers.Was:
    """The job is gone, whatever its state; its holder is told when it settles. Answers the state it was in."""
    return was(await x.topic.delete(x.path["id"]))


@table.route(
    "POST",
    JOB + "/kick",
    scopes=PRODUCE,
    answer_model=answers.Was,
    problem_codes=("unknown_job",),
    example=Example(answer=answers.Was("dead"), path=PATH),
)
async def kick(x: ServiceRequest) -> answers.Was:
    """A dead job is ready again, its attempts at 0. Answers the state it was in."""
    return was(await x.topic.kick(x.path["id"]))


@table.route(
    "POST",
    JOB + "/reschedule",
    scopes=PRODUCE,
    body_model=models.Reschedule,
    answer_model=answers.Was,
    problem_codes=("unknown_job",),
    example=Example(models.Reschedule(delay="1h"), answers.Was("delayed"), PATH),
)
async def reschedule(x: ServiceRequest) -> answers.Was:
    """Another due time for a delayed or ready job; reserved and dead ones stay. Answers the state it was in."""
    return was(await x.topic.reschedule(x.path["id"], delay=x.payload.delay, at=x.payload.at))
