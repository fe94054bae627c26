"""What requests are answered: durations are ``*_ms`` (lateness to the microsecond), moments RFC 3339."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from tarry.clients.http import bodies
from tarry.clients.http.models import AnyJson, Base64, Moment
from tarry.errors import BodyError
from tarry.verbs.jobs.shapes import HandedOut, JobInfo, Page, State, Stored
from tarry.verbs.redisson.values import Opaque

if TYPE_CHECKING:
    from tarry.clients.scheduling import Schedule

_MS = timedelta(milliseconds=1)
Milliseconds = Annotated[float, Meta(ge=0)]


class Answer(Struct, omit_defaults=True):
    """What does not apply is left out."""


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
    """What a topic keeps for its workers. ``body``, where it is JSON; else ``body_base64``, and its ``content_type`` if one was given."""

    id: str
    topic: str
    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    content_type: str | None = None
    unreadable: str | None = None
    """Why there is no body: the record is damaged, or of a newer tarry."""
    headers: dict[str, str] = {}


class Job(Carried, kw_only=True):
    """What lies in the topic."""

    created: Moment | None = None


class PoppedJob(Job, kw_only=True):
    """A job in your hands. ``receipt`` proves it; settle the job before ``ttr_ms`` are over."""

    receipt: int
    attempt: int
    due: Moment
    lateness_ms: Milliseconds
    ttr_ms: Milliseconds


class PoppedJobs(Answer):
    """Empty, when none was due in time."""

    jobs: list[PoppedJob]


class JobShown(Job, kw_only=True):
    """A job as it is now."""

    state: State
    attempts: int
    due: Moment | None = None
    reserved_until: Moment | None = None
    died: Moment | None = None
    max_attempts: int | None = None
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


def popped(job: HandedOut[bodies.Body]) -> PoppedJob:
    return PoppedJob(
        **_stored(job),
        receipt=job.receipt,
        attempt=job.attempt,
        due=job.due,
        lateness_ms=ms(job.lateness),
        ttr_ms=ms(job.ttr),
    )


def shown(job: JobInfo[bodies.Body]) -> JobShown:
    said = _stored(job)
    if "unreadable" not in said:
        said |= {"max_attempts": job.max_attempts, "ttr_ms": None if job.ttr is None else ms(job.ttr)}
    return JobShown(
        **said,
        state=job.state,
        attempts=job.attempts,
        due=job.due,
        reserved_until=job.reserved_until,
        died=job.died,
        receipt=job.receipt,
        holder=job.holder,
        reason=job.reason,
        error=job.error,
        first_failure=job.first_failure,
    )


def page(found: Page[bodies.Body]) -> JobPage:
    return JobPage([shown(job) for job in found], found.cursor)


def _stored(job: Stored[bodies.Body]) -> dict[str, Any]:
    said = carried(job)
    if "unreadable" not in said:
        said["created"] = job.created
    return said


def carried(one: Stored[bodies.Body] | Schedule) -> dict[str, Any]:
    """The fields of what is carried."""
    said: dict[str, Any] = {"id": one.id, "topic": one.topic}
    try:
        said |= bodies.shown(one.body)
        if headers := one.headers:
            said["headers"] = headers
            if "body_base64" in said and (media := headers.get(bodies.MEDIA)):
                said["content_type"] = media
    except BodyError as fault:
        said["unreadable"] = str(fault)
    return said


def ms(span: timedelta) -> float:
    return round(span / _MS, 3)


# ── shared queues ────────────────────────────────────────────────────────────────────────────────────────────────────


class Offered(Struct):
    """When each element is due, by the server's clock."""

    due: list[Moment]


class QueueSize(Struct):
    """``delayed``: not moved yet; ``ready``: may be taken."""

    delayed: int
    ready: int


class MapSize(Struct):
    """``size``: entries that live; ``expired``: those that wait for the evictor, unseen; ``max_size`` ``null``: unlimited.

    ``mode``: what goes when it is full, ``LRU`` or ``LFU``; ``keepers``: the evictor and its deputy.
    """

    now: Moment
    size: int
    expired: int
    next_expiry: Moment | None
    max_size: int | None
    mode: str
    listened: bool
    keepers: int


class Elements(Struct):
    """``bytes`` elements, and what the codec cannot read, as base64 text."""

    values: list[Any]


def elements(values: list[Any]) -> Elements:
    return Elements([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    """What JSON has no form for becomes text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(bytes(value)).decode()
    if value is None or isinstance(value, (str, bool, datetime)):
        return value
    if isinstance(value, (int, float)):  # Redisson's own kinds of numbers among them
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    return b64encode(value.raw).decode() if isinstance(value, Opaque) else str(value)
