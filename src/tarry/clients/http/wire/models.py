"""Requests about jobs: the models of JSON bodies and of queries."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from tarry.clients.http.wire.types import (
    MOST_ITEMS,
    AnyJson,
    Attempts,
    Base64,
    Headers,
    Ids,
    Limit,
    Moment,
    Name,
    NewName,
    Receipt,
    SomeSpan,
    SomeWords,
    Span,
    Strict,
    Topics,
    Ttr,
    TtrWords,
    Wait,
    Words,
)
from tarry.verbs.jobs.options import IfExists

# ── putting in ────────────────────────────────────────────────────────────────────────────────────────────────────────

Durable = Annotated[
    Literal["replicated", "fsynced"] | Annotated[int, Meta(ge=1, le=100)] | None,
    Meta(description="answered when a replica has it, so many of them, or the server's disk"),
]


class Options(Strict):
    """The options of an add of one job or of many."""

    delay: Span | None = None
    at: Moment | None = None
    ttr: Ttr | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeSpan | None = None
    headers: Headers | None = None


class OneOfMany(Options):
    """A job among many. Its missing options come from the request."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    id: NewName | None = None


class Add(OneOfMany):
    """A job to put in: ``body`` (JSON) or ``body_base64`` (bytes); ``delay`` or ``at``."""

    if_exists: IfExists = "error"
    durability: Durable = None


class AddMany(Options, kw_only=True):
    """Jobs to put in. The request's options are the defaults of the jobs."""

    jobs: Annotated[list[OneOfMany], Meta(min_length=1, max_length=100_000)]
    if_exists: IfExists = "error"
    atomic: bool = False
    durability: Durable = None


class AddQuery(Strict):
    """The options of an add whose body is the job's body itself."""

    delay: Words | None = None
    at: Moment | None = None
    ttr: TtrWords | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeWords | None = None
    id: NewName | None = None
    if_exists: IfExists = "error"
    durability: Durable = None


# ── taking out ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pop(Strict):
    """``ttr`` holds for jobs that have none of their own."""

    wait: Wait = 0
    ttr: SomeSpan | None = None
    holder: (
        Annotated[str, Meta(min_length=1, max_length=100, description="who takes them, as `get` shows it")] | None
    ) = None


class PopMany(Pop):
    """At most ``n`` jobs, and 4 MB of bodies."""

    n: Limit = 1


class PopFromAny(PopMany, kw_only=True):
    """The first of the topics, in this order, that has anything ready."""

    topics: Topics


# ── settling ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Held(Strict):
    """The proof that a job is yours."""

    receipt: Receipt


class Touch(Held):
    """``ttr``: how long the reservation lasts from now."""

    ttr: SomeSpan


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


HeldJobs = Annotated[list[OneHeld], Meta(min_length=1, max_length=MOST_ITEMS)]


class FinishMany(Strict):
    """Those whose receipts hold are finished, whatever becomes of the others."""

    jobs: HeldJobs


class TouchMany(FinishMany):
    """All of them last ``ttr`` from now."""

    ttr: SomeSpan


class ReleaseMany(FinishMany):
    """As ``Release``, for all."""

    delay: Span | None = None
    count: bool = True
    reason: str = ""


class BuryMany(FinishMany):
    """As ``Bury``, for all."""

    reason: str = ""


class HolderTouch(Strict):
    """The reservations of a dead or silent process."""

    ttr: SomeSpan


class HolderRelease(Strict):
    """``count``: the attempts stay counted; ``limit``: the most jobs."""

    count: bool = False
    limit: Annotated[int, Meta(ge=1, le=2**31)] | None = None


# ── by id ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


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
