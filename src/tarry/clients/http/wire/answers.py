"""Answers about jobs: durations are ``*_ms`` (lateness to the microsecond), moments RFC 3339."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, field

from tarry.clients.http.wire import bodies
from tarry.clients.http.wire.types import Answer, AnyJson, Base64, Milliseconds, Moment, ms
from tarry.errors import BodyError
from tarry.verbs.jobs.models import Added, HandedOut, JobInfo, Page, State, StoredJob

if TYPE_CHECKING:
    from tarry.clients.schedule_verbs import Schedule

# ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class AddedJob(Answer):
    """``created`` is false when ``if_exists="keep"`` found the job there."""

    id: str
    created: bool
    state: State
    due: Moment


class AddedJobs(Answer):
    """In the order of the request."""

    jobs: list[AddedJob]


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


class JobFields(Carried, kw_only=True):
    """A job's record with the moment when it was added."""

    created: Moment | None = None


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

    state: State
    attempts: int
    due: Moment | None = None
    reserved_until: Moment | None = None
    died: Moment | None = None
    max_attempts: int | None = None
    attempt_limit: int | None = None
    """The limit that held when it was last handed out or failed: its own, the topic's, or its handler's if that is smaller."""
    ttr_ms: Milliseconds | None = None
    receipt: int | None = None
    """Under which it was last handed out."""
    holder: str | None = None
    reason: str | None = None
    error: str | None = None
    first_failure: Moment | None = None


class JobPage(Answer):
    """Without ``cursor`` it is the last page."""

    jobs: list[JobShown]
    cursor: str | None = None


class JobsShown(Struct):
    """``null`` for an unknown id."""

    jobs: list[JobShown | None]


class Was(Answer):
    """The state that the job was in."""

    was: State


class WereMany(Struct):
    """The states that the jobs were in, ``null`` for unknown ids."""

    was: list[State | None]


class Count(Struct):
    """How many."""

    count: int


def added_job(job: Added) -> AddedJob:
    return AddedJob(job.id, job.created, job.state, job.due)


def popped_job(job: HandedOut[Any]) -> PoppedJob:
    return PoppedJob(
        **_stored_fields(job),
        receipt=job.receipt,
        attempt=job.attempt,
        due=job.due,
        lateness_ms=ms(job.lateness),
        ttr_ms=ms(job.ttr),
    )


def job_shown(job: JobInfo[Any]) -> JobShown:
    said = _stored_fields(job)
    if "created" in said:  # else nothing can be read
        said |= {"max_attempts": job.max_attempts, "ttr_ms": None if job.ttr is None else ms(job.ttr)}
    return JobShown(
        **said,
        state=job.state,
        attempts=job.attempts,
        attempt_limit=job.attempt_limit,
        due=job.due,
        reserved_until=job.reserved_until,
        died=job.died,
        receipt=job.receipt,
        holder=job.holder,
        reason=job.reason,
        error=job.error,
        first_failure=job.first_failure,
    )


def job_page(found: Page[Any]) -> JobPage:
    return JobPage([job_shown(job) for job in found], found.cursor)


def _stored_fields(job: StoredJob[Any]) -> dict[str, Any]:
    said = carried_fields(job)
    with suppress(BodyError):
        said["created"] = job.created
    return said


def carried_fields(one: StoredJob[Any] | Schedule) -> dict[str, Any]:
    """The fields of what is carried."""
    said: dict[str, Any] = {"id": one.id, "topic": one.topic}
    try:
        said |= bodies.body_fields(one.encoded)
        if headers := one.headers:
            said["headers"] = headers
            if "body_base64" in said and (media := headers.get(bodies.MEDIA)):
                said["content_type"] = media
    except BodyError as fault:
        said["unreadable"] = str(fault)
    return said
