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
from tarry.programs.service import adding, keyed
from tarry.programs.service.problems import UnknownJob, WrongMedia
from tarry.programs.service.replies import Answered, Plain
from tarry.programs.service.sharing import waiting
from tarry.programs.service.table import ANY, CONSUME, PRODUCE, Example, Table, one
from tarry.verbs.codecs import JSON, RAW
from tarry.verbs.jobs.holders import new_holder_of
from tarry.verbs.jobs.models import Reservation

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange
    from tarry.verbs.jobs.models import JobInfo

table = Table("jobs")
JOBS, JOB = "/v1/topics/{topic}/jobs", "/v1/topics/{topic}/jobs/{id}"
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_DUE = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc)
_JOB: dict[str, Any] = {"id": "7", "topic": "orders", "body": msgspec.Raw(b'{"order": 7}'), "created": _DUE}
_POPPED = answers.PoppedJob(**_JOB, receipt=1800000000000000, attempt=1, due=_DUE, lateness_ms=0.31, ttr_ms=60000)
_FIELD = re.compile(r"[!-~\xa1-\xff]([\t -~\xa0-\xff]*[!-~\xa1-\xff])?")
FOREIGN = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox"))
"""A body is somebody else's: no browser may run it as if it came from here."""
PATH = {"topic": "orders", "id": "7"}


@table.row(
    "POST",
    JOBS,
    makes=("topic",),
    may=PRODUCE,
    takes=models.Add,
    by_hand=True,
    asks=models.AddQuery,
    gives=answers.AddedJob,
    status=201,
    also={200: "A job with this id was there already, and stays: `if_exists=keep`."},
    refuses=("job_exists", "too_large", "wrong_media", "unconfirmed"),
    example=Example(
        models.Add(body=msgspec.Raw(b'{"order": 7}'), id="7", delay="30m"),
        answers.AddedJob("7", True, "delayed", _DUE),
        PATH,
    ),
)
async def add(x: Exchange) -> Answered:
    """Puts a job in, to be handed out after a delay or at a moment.

    A body of any other type than JSON is the job's body itself, kept with its type; its options stand in the query.
    With the header `Idempotency-Key` a repeated request adds nothing as long as the job is there, in whatever state, and is
    answered like the first, with 201. It must say the same: what differs is neither compared nor stored. Once the job was
    finished or deleted, the request adds it anew.
    """
    media = x.media()
    said: models.Add | models.AddQuery
    headers: Mapping[str, str] | None
    if media == "application/json" or not media:
        if x.asked != models.AddQuery():
            raise BadInput("query: the options of a JSON body stand in the body.")
        job: models.Add = x.row.decode(await x.read())
        said, body, headers = job, bodies.body_of(job.body, job.body_base64, job.coded), job.headers
    elif media in _FORMS:
        raise WrongMedia
    else:
        body, said = (await x.read(), RAW), x.asked
        headers = {bodies.MEDIA: x.headers[b"content-type"].decode("latin-1")}
    x.door.gate.count(x, 1)
    topic = x.topic
    call = adding.add_one(topic, body, said, headers, keyed.ids_of(x.headers))
    await topic.engine.register_topic(topic.name)
    added = await topic.engine.run(call)
    return Answered(answers.added_job(added), 201 if added.created else 200)


@table.row(
    "POST",
    "/v1/topics/{topic}/pop",
    may=CONSUME,
    takes=models.Pop,
    gives=answers.PoppedJob,
    also={204: "None was due in time."},
    jobs=one,
    refuses=("too_large",),
    example=Example(models.Pop(wait="30s", ttr=60), _POPPED, PATH),
)
async def pop(x: Exchange) -> answers.PoppedJob | None:
    """The job that has been due for longest, reserved for its time to run; waits up to 60 s for one.

    A client that goes while it waits is handed nothing.
    """
    seconds = waiting(x.said.wait)
    work = taking_from(x.topic, x.said.holder).pop_many(1, wait=seconds, ttr=x.said.ttr)
    jobs = await x.taken(work, waits=bool(seconds))
    return answers.popped_job(jobs[0]) if jobs else None


def taking_from(topic: AsyncTopic[bodies.Body], holder: str | None) -> AsyncTopic[bodies.Body]:
    """The same topic in the name of whoever takes."""
    if holder is None:
        return topic
    return AsyncTopic(topic.engine, topic.verbs.on_behalf_of(holder=new_holder_of(holder)))


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.row(
    "POST",
    JOB + "/finish",
    may=CONSUME,
    takes=models.Held,
    refuses=("stale_receipt",),
    example=Example(models.Held(1800000000000000), path=PATH),
)
async def finish(x: Exchange) -> None:
    """The work is done: the job is gone."""
    await x.topic.finish(Reservation(x.path["id"], x.said.receipt))


@table.row(
    "POST",
    JOB + "/touch",
    may=CONSUME,
    takes=models.Touch,
    refuses=("stale_receipt",),
    example=Example(models.Touch(1800000000000000, "1m"), path=PATH),
)
async def touch(x: Exchange) -> None:
    """More time: the reservation lasts so long from now."""
    await x.topic.touch(Reservation(x.path["id"], x.said.receipt), x.said.ttr)


@table.row(
    "POST",
    JOB + "/release",
    may=CONSUME,
    takes=models.Release,
    refuses=("stale_receipt",),
    example=Example(models.Release(1800000000000000, delay="10s", reason="The shop does not answer"), path=PATH),
)
async def release(x: Exchange) -> None:
    """Back with it, due again after a delay, or a back-off. The last attempt that counts makes it dead."""
    said = x.said
    held = models.OneHeld(receipt=said.receipt, id=x.path["id"], attempt=said.attempt)
    await x.topic.release(held, said.delay, count=said.count, reason=said.reason)


@table.row(
    "POST",
    JOB + "/bury",
    may=CONSUME,
    takes=models.Bury,
    refuses=("stale_receipt",),
    example=Example(models.Bury(1800000000000000, "No such order"), path=PATH),
)
async def bury(x: Exchange) -> None:
    """Sets it aside as dead. `kick` brings it back."""
    await x.topic.bury(Reservation(x.path["id"], x.said.receipt), x.said.reason)


# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.row(
    "GET",
    JOB,
    may=ANY,
    gives=answers.JobShown,
    refuses=("unknown_job",),
    example=Example(answer=answers.JobShown(**_JOB, state="delayed", attempts=0, due=_DUE), path=PATH),
)
async def get(x: Exchange) -> answers.JobShown:
    """The job as it is now."""
    job = await x.topic.get(x.path["id"])
    if job is None:
        raise UnknownJob
    return answers.job_shown(job)


@table.row("GET", JOB + "/body", may=ANY, gives=bytes, media="*/*", refuses=("unknown_job", "body_error"))
async def body(x: Exchange) -> Answered:
    """The job's body itself, with its type."""
    job = await x.topic.get(x.path["id"])
    if job is None:
        raise UnknownJob
    raw, flag = job.body
    return Answered(Plain(raw, "application/json" if flag == JSON else _media_of(job)), headers=FOREIGN)


def _media_of(job: JobInfo[bodies.Body]) -> str:
    """The type that its header says, where that can be a header of HTTP."""
    try:
        said = job.headers.get(bodies.MEDIA, "")
    except BodyError:
        said = ""
    return said if _FIELD.fullmatch(said) else "application/octet-stream"


def was(state: Any) -> answers.Was:
    if state is None:
        raise UnknownJob
    return answers.Was(state)


@table.row(
    "DELETE",
    JOB,
    may=PRODUCE,
    gives=answers.Was,
    refuses=("unknown_job",),
    example=Example(answer=answers.Was("delayed"), path=PATH),
)
async def delete(x: Exchange) -> answers.Was:
    """The job is gone, whatever its state; its holder is told when it settles. Answers the state it was in."""
    return was(await x.topic.delete(x.path["id"]))


@table.row(
    "POST",
    JOB + "/kick",
    may=PRODUCE,
    gives=answers.Was,
    refuses=("unknown_job",),
    example=Example(answer=answers.Was("dead"), path=PATH),
)
async def kick(x: Exchange) -> answers.Was:
    """A dead job is ready again, its attempts at 0. Answers the state it was in."""
    return was(await x.topic.kick(x.path["id"]))


@table.row(
    "POST",
    JOB + "/reschedule",
    may=PRODUCE,
    takes=models.Reschedule,
    gives=answers.Was,
    refuses=("unknown_job",),
    example=Example(models.Reschedule(delay="1h"), answers.Was("delayed"), PATH),
)
async def reschedule(x: Exchange) -> answers.Was:
    """Another due time for a delayed or ready job; reserved and dead ones stay. Answers the state it was in."""
    return was(await x.topic.reschedule(x.path["id"], delay=x.said.delay, at=x.said.at))
