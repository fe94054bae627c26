"""Answers about jobs: durations are ``*_ms`` (lateness to the microsecond), moments RFC 3339."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import UNSET, Raw, Struct, UnsetType, field

from tarry.errors import BodyError
from tarry.values.durations import MILLISECOND, moment_us
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import job_fields as contents
from tarry.verbs.jobs.end_values import End, EndState, UnknownEnds
from tarry.verbs.jobs.job_fields import FailedAttempt
from tarry.verbs.jobs.job_values import Added, BaseJob, JobInfo, JobPage, JobState, PoppedFields, State, StoredJob
from tarry.wire import bodies
from tarry.wire.schemas import Schema, SharedFields, field_schema, schema_of
from tarry.wire.types import Answer, AnyJson, Base64, Milliseconds, Moment

if TYPE_CHECKING:
    from tarry.verbs.jobs.schedule_info import Schedule

T = TypeVar("T")

ADDED = schema_of(
    Added, "AddedJob", '``is_new`` is false when ``if_exists="keep"``, ``"once"`` or ``"update"`` found the job there.'
)
ADDED_JOBS: Schema[list[Added]] = field_schema("AddedJobs", "jobs", list[Added], "In the order of the request.")
WAS: Schema[State] = field_schema("Was", "was", State, "The state that the job was in.")
WERE_MANY: Schema[list[State | None]] = field_schema(
    "WereMany", "was", list[State | None], "The states that the jobs were in, ``null`` for unknown ids."
)
STEP: Schema[Raw] = field_schema(
    "KeptStep", "result", Raw, "What the step has kept: of a name that had a result, that one."
)
COUNT: Schema[int] = field_schema("Count", "count", int, "How many.")


class Carried(Answer, kw_only=True):
    """A job's record, as the topic keeps it for its workers. ``body``, where it is JSON; else ``body_base64``, and its ``content_type`` if one was given."""

    id: str
    topic: str
    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    content_type: str | None = None
    unreadable: str | None = None
    """Why there is no body, or, where there is one, why there are no headers: the record is damaged, or of a newer tarry."""
    headers: dict[str, str] = field(default_factory=dict)
    priority: int = 0
    """Of the jobs that are due, the highest is handed out first: 1 to 3; left out if it is 0."""
    key: str | None = None


class JobFields(Carried, kw_only=True):
    """A job's record with the moment when it was added."""

    created: Moment | None = None
    steps: dict[str, AnyJson] = field(default_factory=dict)
    """The results of its steps that are kept, by their names, in their order."""


class PoppedJob(JobFields, kw_only=True):
    """A job that you have reserved. ``receipt`` proves it; settle the job before ``ttr_ms`` are over."""

    receipt: int
    attempt: int
    due: Moment
    lateness_ms: Milliseconds
    ttr_ms: Milliseconds


class PoppedJobs(Answer):
    """Empty, when none was due in time."""

    jobs: list[PoppedJob]


class JobShown(JobFields, kw_only=True):
    """A job as it is now."""

    state: JobState
    attempts: int
    due: Moment | None = None
    reserved_until: Moment | None = None
    died: Moment | None = None
    finished: Moment | None = None
    kept_until: Moment | None = None
    result: AnyJson | UnsetType = UNSET
    """Of a finished job."""
    result_not_kept: str | None = None
    """Why there is no result."""
    max_attempts: int | None = None
    effective_max_attempts: int | None = None
    """The limit that held when it was last handed out or failed: its own, its handler's or the topic's."""
    ttr_ms: Milliseconds | None = None
    receipt: int | None = None
    """Under which it was last handed out."""
    holder: str | None = None
    reason: str | None = None
    error: str | None = None
    note: str | None = None
    """A remark beside its failure: that nobody knows its task, and since when."""
    first_failure: Moment | None = None
    failed_attempts: tuple[FailedAttempt, ...] = ()
    """The last ten, the last one first; ``error`` is one line."""


class EndShown(Struct):
    """An end of a job, and the job as it is kept."""

    id: str
    state: EndState
    at: Moment
    job: JobShown


class UnknownEndsShown(Struct):
    """Some ends of this time are no longer kept, and not known."""

    since: Moment
    until: Moment


class JobPageShown(Answer):
    """Without ``cursor`` it is the last page. ``scanned``: how many jobs were read for it."""

    jobs: list[JobShown]
    cursor: str | None = None
    scanned: int = 0


class JobsShown(Struct):
    """``null`` for an unknown id."""

    jobs: list[JobShown | None]


_POPPED_FIELDS = SharedFields(PoppedJob, JobFields)
_STATE_FIELDS = SharedFields(JobShown, JobFields, "max_attempts", "ttr_ms", "result")
_HEAD_FIELDS = SharedFields(JobShown, JobFields, *_STATE_FIELDS.wire_names, "result")
"""Of a record that can be read."""


# ── of a job ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dump_popped(job: BaseJob[Any]) -> PoppedJob:
    return PoppedJob(**_stored_fields(job), **_POPPED_FIELDS.dump(job))


def _dump_job(job: JobInfo[Any]) -> JobShown:
    stored = _stored_fields(job)
    readable = _HEAD_FIELDS.dump(job) if "created" in stored else {}
    result = Raw(job.result_json) if job.result_json else UNSET
    return JobShown(**stored, **readable, **_STATE_FIELDS.dump(job), result=result)


def shown_end(end: End[Any] | UnknownEnds) -> tuple[str, EndShown | UnknownEndsShown]:
    """The name of an event, and its data."""
    if isinstance(end, End):
        return end.state, EndShown(end.id, end.state, end.at, _dump_job(end.job))
    return "unknown", UnknownEndsShown(end.since, end.until)


def _stored_fields(job: StoredJob[Any]) -> dict[str, Any]:
    fields = carried_fields(job)
    with suppress(BodyError):
        fields["created"] = job.created
        fields["steps"] = {name: Raw(result) for name, result in job.kept_steps.items()}
    return fields


def carried_fields(record: StoredJob[Any] | Schedule) -> dict[str, Any]:
    """The fields of what is carried."""
    fields: dict[str, Any] = {"id": record.id, "topic": record.topic}
    try:
        fields |= bodies.body_fields(record.encoded)
        head = record.head
        fields.update(priority=head.priority, key=head.key)
        if headers := record.headers:
            fields["headers"] = headers
            if "body_base64" in fields and (media := headers.get(bodies.MEDIA)):
                fields["content_type"] = media
    except BodyError as fault:
        fields["unreadable"] = str(fault)
    return fields


# ── and back ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Popped(NamedTuple):
    """When a job was popped, in µs, and with which receipt."""

    now: int
    receipt: int
    keeps_finished: bool = False
    """A service does not answer it: it takes any result."""


def popped_parts(job: PoppedJob) -> tuple[Popped, list[PoppedFields]]:
    """A popped job as a handle takes it. One answer may have jobs of many partitions, each with a receipt and a moment of its own."""
    due = moment_us(job.due)
    fields = job.id.encode(), _contents_of(job), job.attempt, due, round(job.ttr_ms * MILLISECOND)
    return Popped(due + round(job.lateness_ms * MILLISECOND), job.receipt), [fields]


def _contents_of(job: JobFields, ttr_ms: float | None = None, max_attempts: int | None = None) -> contents.Record:
    """The job's fields; nothing, where the service could not read it."""
    if job.created is None:
        return b""
    found = carried_contents(job, moment_us(job.created), ttr_ms or 0, max_attempts or 0)
    return found._replace(steps={name: bytes(result) for name, result in job.steps.items()}) if job.steps else found


def carried_contents(
    record: Carried, created: int, ttr_ms: float, max_attempts: int, max_lateness_us: int | None = None
) -> contents.JobContents:
    """The job's fields, as the library has them."""
    (raw, flag), headers = bodies.body_in(record), record.headers if record.unreadable is None else None
    return contents.JobContents(
        created,
        flag,
        raw,
        ttr_ms=round(ttr_ms),
        max_attempts=max_attempts,
        headers=headers,
        max_lateness_us=max_lateness_us,
        priority=record.priority,
        key=record.key,
    )


def _load_job(job: JobShown, codec: BodyCodec[T]) -> JobInfo[T]:
    since = job.due or job.reserved_until or job.died or job.kept_until
    run = contents.JobRun(
        attempt=job.attempts,
        limit=job.effective_max_attempts or 0,
        receipt=job.receipt or 0,
        first_failure=moment_us(job.first_failure) if job.first_failure else 0,
        holder=job.holder or "",
        fault="\n".join([job.reason or "", *([job.error] if job.error else [])]),
        note=job.note or "",
    )
    record = _contents_of(job, job.ttr_ms, job.max_attempts)
    history = None
    if job.finished is not None:
        result = b"" if isinstance(job.result, UnsetType) else bytes(job.result)
        history = contents.FinishedRecord(moment_us(job.finished), result, job.result_not_kept or "")
    return JobInfo(
        job.topic,
        codec,
        job.id,
        job.state,
        moment_us(since) if since else 0,
        record,
        run,
        job.failed_attempts,
        history=history,
    )


def _dump_jobs(jobs: list[JobInfo[Any] | None]) -> JobsShown:
    return JobsShown([None if job is None else _dump_job(job) for job in jobs])


def _load_jobs(found: JobsShown, codec: BodyCodec[T]) -> list[JobInfo[T] | None]:
    return [None if job is None else _load_job(job, codec) for job in found.jobs]


def _dump_page(found: JobPage[Any]) -> JobPageShown:
    return JobPageShown([_dump_job(job) for job in found], found.cursor, found.scanned)


def _load_page(found: JobPageShown, codec: BodyCodec[T]) -> JobPage[T]:
    return JobPage(tuple(_load_job(job, codec) for job in found.jobs), found.cursor, found.scanned)


def _dump_popped_jobs(jobs: list[Any]) -> PoppedJobs:
    return PoppedJobs([_dump_popped(job) for job in jobs])


def _popped_as_is(job: PoppedJob) -> Any:
    return job


def _popped_in(found: PoppedJobs) -> list[Any]:
    return list(found.jobs)


POPPED: Schema[Any] = Schema(PoppedJob, _dump_popped, _popped_as_is)
POPPED_JOBS: Schema[list[Any]] = Schema(PoppedJobs, _dump_popped_jobs, _popped_in)
"""A handle makes jobs of what ``load`` returns: ``PoppedJob``."""
JOB: Schema[JobInfo[Any]] = Schema(JobShown, _dump_job, _load_job)
JOBS: Schema[list[JobInfo[Any] | None]] = Schema(JobsShown, _dump_jobs, _load_jobs)
JOB_PAGE: Schema[JobPage[Any]] = Schema(JobPageShown, _dump_page, _load_page)
