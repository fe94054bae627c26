"""What requests say: the models of JSON bodies and of queries. A field that is not known is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from tarry.verbs.jobs.shapes import IfExists, State
from tarry.verbs.schedules.plans import Missed

MOST_WAIT_S = 60
"""The longest wait of one request."""
MOST_MANY = 1000


def _shaped(pattern: str, **more: Any) -> Meta:
    """What a text looks like, for documents: the library itself refuses others, in better words."""
    return Meta(extra_json_schema={"pattern": pattern, **more})


_NAME = r"^[^\s\x00-\x1f\x7f-\x9f{}]([^\x00-\x1f\x7f-\x9f{}\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f{}])?$"
_NUMBER = r"\d{1,9}(\.\d{1,6})?"
_WORDS = rf"^({_NUMBER}|({_NUMBER}(us|ms|s|m|h|d|w))+|PT{_NUMBER}S|P\d{{1,4}}D)$"
Name = Annotated[str, _shaped(_NAME, minLength=1, maxLength=200), Meta(description="1 to 200 bytes of UTF-8")]
Seconds = Annotated[float, Meta(ge=0)]
Words = Annotated[str, _shaped(_WORDS), Meta(max_length=100)]
Span = Annotated[
    Annotated[int, Meta(ge=0)] | Seconds | Words, Meta(description='Seconds, or text: "10m", "1h30m", ISO 8601 "PT10M"')
]
Moment = Annotated[datetime, Meta(tz=True)]
Receipt = Annotated[int, Meta(ge=1, le=2**53 - 1, description="what pop answered with the job")]
Attempts = Annotated[int, Meta(ge=1, le=999_999)]
WholeRate = Annotated[int, Meta(ge=1, le=1_000_000)]
RateText = Annotated[str, Meta(extra_json_schema={"pattern": r"^[1-9]\d{0,5}/(s|m|h|d)$"})]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Ids = Annotated[list[Name], Meta(min_length=1, max_length=MOST_MANY)]
Topics = Annotated[list[Name], Meta(min_length=1, max_length=100)]
Headers = Annotated[Mapping[str, str], Meta(description="a small map, kept with the job")]
Base64 = Annotated[str, Meta(description="bytes, as base64", extra_json_schema={"contentEncoding": "base64"})]
AnyJson = Annotated[Raw, Meta(description="any JSON", extra_json_schema={})]


class Strict(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A request."""


# ── putting in ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Options(Strict):
    """What one or many adds say besides bodies."""

    delay: Span | None = None
    at: Moment | None = None
    ttr: Span | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: Span | None = None
    headers: Headers | None = None


class OneOfMany(Options):
    """A job among many. What is not given comes from the request."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    id: Name | None = None


class Add(OneOfMany):
    """A job to put in: ``body`` (JSON) or ``body_base64`` (bytes); ``delay`` or ``at``."""

    if_exists: IfExists = "error"


class AddMany(Options, kw_only=True):
    """Jobs to put in. Options of the request hold for those that say nothing else."""

    jobs: Annotated[list[OneOfMany], Meta(min_length=1, max_length=100_000)]
    if_exists: IfExists = "error"
    atomic: bool = False


class AddQuery(Strict):
    """The options of an add whose body is the job's body itself."""

    delay: Words | None = None
    at: Moment | None = None
    ttr: Words | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: Words | None = None
    id: Name | None = None
    if_exists: IfExists = "error"


# ── taking out ───────────────────────────────────────────────────────────────────────────────────────────────────────

Wait = Annotated[Span, Meta(description="how long to wait for a job, at most 60 s")]


class Pop(Strict):
    """``ttr`` holds for jobs that have none of their own."""

    wait: Wait = 0
    ttr: Span | None = None
    holder: Annotated[str, Meta(max_length=100, description="who takes them, as `get` shows it")] | None = None


class PopMany(Pop):
    """At most ``n`` jobs, and 4 MB of bodies."""

    n: Limit = 1


class PopFromAny(PopMany, kw_only=True):
    """The first of the topics, in this order, that has anything ready."""

    topics: Topics


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Held(Strict):
    """The proof that a job is yours."""

    receipt: Receipt


class Touch(Held):
    """The reservation lasts so long from now."""

    ttr: Span


class Release(Held):
    """Without ``delay``: back-off by ``attempt``. ``count=false`` takes the attempt back, and means at once."""

    delay: Span | None = None
    attempt: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    count: bool = True
    reason: str = ""


class Bury(Held):
    """``reason``: one line."""

    reason: str = ""


class OneHeld(Held):
    """One of many."""

    id: Name
    attempt: Annotated[int, Meta(ge=1, le=2**31)] | None = None


HeldJobs = Annotated[list[OneHeld], Meta(min_length=1, max_length=MOST_MANY)]


class FinishMany(Strict):
    """Those whose receipts hold are finished, whatever becomes of the others."""

    jobs: HeldJobs


class TouchMany(FinishMany):
    """All of them last ``ttr`` from now."""

    ttr: Span


class ReleaseMany(FinishMany):
    """As ``Release``, for all."""

    delay: Span | None = None
    count: bool = True
    reason: str = ""


class BuryMany(FinishMany):
    """As ``Bury``, for all."""

    reason: str = ""


class HolderTouch(Strict):
    """What a dead or silent process held."""

    ttr: Span


class HolderRelease(Strict):
    """``count``: the attempts stay counted; ``limit``: at most so many."""

    count: bool = False
    limit: Annotated[int, Meta(ge=1, le=2**31)] | None = None


# ── minding ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Several(Strict):
    """Jobs by their ids."""

    ids: Ids


class Reschedule(Strict):
    """``delay`` or ``at``."""

    delay: Span | None = None
    at: Moment | None = None


class RescheduleMany(Reschedule, kw_only=True):
    """Jobs by their ids; ``delay`` or ``at``."""

    ids: Ids


class ListQuery(Strict):
    """Which jobs, and where the page begins."""

    state: State | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None
    limit: Limit = 100
    cursor: str | None = None


class HistogramQuery(Strict):
    """``buckets`` over ``span``, from ``start`` (after now, or a moment), or ``past`` before now."""

    start: str = "0"
    span: Words = "1h"
    buckets: Limit = 60
    past: Words = "0"


class Pause(Strict, rename={"for_": "for"}):
    """``for``: how long; without it until ``resume``."""

    for_: Span | None = None


class Purge(Strict):
    """``state``: only these; without it all."""

    state: State | None = None


class Configure(Strict):
    """What is not named stays. ``null``: a TTR of 60 s, no limit of attempts, dead jobs kept for ever, no such limit.

    ``rate``: jobs a second, or text such as ``"100/m"``.
    """

    ttr: Span | UnsetType | None = UNSET
    max_attempts: Attempts | UnsetType | None = UNSET
    keep: Span | UnsetType | None = UNSET
    rate: WholeRate | RateText | UnsetType | None = UNSET
    burst: WholeRate | UnsetType | None = UNSET
    concurrency: WholeRate | UnsetType | None = UNSET
    max_lateness: Span | UnsetType | None = UNSET


# ── jobs that come again ─────────────────────────────────────────────────────────────────────────────────────────────

ScheduleName = Annotated[
    str,
    _shaped(r"^[^\s\x00-\x1f\x7f-\x9f{}]+$", minLength=1, maxLength=160),
    Meta(description="1 to 160 bytes of UTF-8"),
]


class PutSchedule(Strict):
    """``every``, or ``cron`` in the time zone ``tz``. ``first``: the first moment of ``every``. Without a body it is ``null``.

    ``missed``: what becomes of occurrences that nobody was there for. The rest is as for a job.
    """

    every: Span | None = None
    cron: Annotated[str, Meta(max_length=200)] | None = None
    tz: Annotated[str, Meta(max_length=100)] = "UTC"
    first: Moment | None = None
    missed: Missed = "once"
    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    ttr: Span | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: Span | None = None
    headers: Headers | None = None


# ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────────

LockName = Annotated[str, Meta(description="as the applications call it"), _shaped("^.", minLength=1)]


class LocksQuery(Strict):
    """Which locks, and where the page begins. ``all``: those that are free, too."""

    all: bool = False
    cursor: Annotated[str, _shaped(r"^[0-9]{1,4}-[0-9]{1,19}$")] | None = None


# ── shared queues ────────────────────────────────────────────────────────────────────────────────────────────────────

CodecName = Literal["kryo5", "river", "json", "string", "long", "bytes"]


class QueueQuery(Strict):
    """The codec of the Java application."""

    codec: CodecName = "kryo5"


class ListQueueQuery(QueueQuery):
    """``limit``: how many of the first; at most 10,000."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Offer(Strict):
    """Elements to put in, with one delay; ``bytes`` elements as base64 text."""

    values: Annotated[list[Any], Meta(min_length=1, max_length=10_000)]
    delay: Span = 0
    codec: CodecName = "kryo5"
    format: Literal["Bc0Lc0", "dLc0"] | None = None


class Take(Strict):
    """``wait`` at most 60 s."""

    n: Limit = 1
    wait: Wait = 0
    codec: CodecName = "kryo5"
