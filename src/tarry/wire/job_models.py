"""Requests about jobs: the models of JSON bodies and of queries; the options of an add as fields of a request, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from tarry.values.durations import duration_us
from tarry.verbs.jobs.options import DEFAULT_OPTIONS, DURATIONS, IfExists, JobOptions, NewJob
from tarry.wire.types import (
    AnyJson,
    Attempts,
    Base64,
    Headers,
    Key,
    Limit,
    Moment,
    Name,
    Priority,
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

# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────────

Durable = Annotated[
    Literal["replicated", "fsynced"] | Annotated[int, Meta(ge=1, le=100)] | None,
    Meta(description="answered when a replica has it, so many of them, or the server's disk"),
]


IF_EXISTS, WITHOUT_ID = "if_exists", ("error", "keep", "replace", "update")
"""An option, and what it may be for a job without an id."""


class Options(Strict):
    """The options of an add of one job or of many."""

    delay: Span | None = None
    at: Moment | None = None
    ttr: Ttr | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeSpan | None = None
    priority: Priority | None = None
    key: Key | None = None
    headers: Headers | None = None


class OneOfMany(Options):
    """A job among many. Its missing options come from the request."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    id: Name | None = None


class Add(OneOfMany):
    """A job to put in: ``body`` (JSON) or ``body_base64`` (bytes); ``delay`` or ``at``."""

    if_exists: IfExists = "error"
    latest: SomeSpan | None = None
    durability: Durable = None


class AddMany(Options, kw_only=True):
    """Jobs to put in. The request's options are the defaults of the jobs."""

    jobs: Annotated[list[OneOfMany], Meta(min_length=1, max_length=100_000)]
    if_exists: IfExists = "error"
    latest: SomeSpan | None = None
    atomic: bool = False
    durability: Durable = None


class AddQuery(Strict):
    """The options of an add whose body is the job's body itself."""

    delay: Words | None = None
    at: Moment | None = None
    ttr: TtrWords | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeWords | None = None
    priority: Priority | None = None
    key: Key | None = None
    id: Name | None = None
    if_exists: IfExists = "error"
    latest: SomeWords | None = None
    durability: Durable = None


# ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pop(Strict):
    """``ttr`` holds for jobs that have none of their own."""

    wait: Wait = 0
    ttr: SomeSpan | None = None
    holder: (
        Annotated[
            str, Meta(min_length=1, max_length=100, description="the consumer that takes them, as `get` shows it")
        ]
        | None
    ) = None


class PopMany(Pop):
    """At most ``limit`` jobs, and 4 MB of bodies."""

    limit: Limit = 1


class PopFromAny(PopMany, kw_only=True):
    """The first of the topics, in this order, that has anything ready."""

    topics: Topics


# ── the options of an add as fields, and back ─────────────────────────────────────────────────────────────────────────────


_DEFAULTS: dict[type, dict[str, Any]] = {
    JobOptions: structs.asdict(DEFAULT_OPTIONS),
    NewJob: {one.name: one.default for one in fields(NewJob) if one.name not in ("body", "id")},
}


def option_fields(options: JobOptions | NewJob[Any]) -> dict[str, Any]:
    """The options that were given, as fields of a request. Durations are exact to the microsecond."""
    return {
        name: f"{duration_us(value, name)}us" if name in DURATIONS else value
        for name, default in _DEFAULTS[type(options)].items()
        if (value := getattr(options, name)) != default
    }


def given_options(request: Struct) -> dict[str, Any]:
    """The options that a request gives, by their names."""
    shared, values_of = _shared(type(request))
    given: dict[str, Any] = {}
    for (name, default), value in zip(shared, values_of(request), strict=True):
        if value is not default:
            given[name] = value
    return given


@cache
def _shared(model: type[Struct]) -> tuple[tuple[tuple[str, Any], ...], Callable[[Struct], tuple[Any, ...]]]:
    """The fields of a request that are options of an add, with their defaults; and what reads them all."""
    found = [(field.name, field.default) for field in structs.fields(model) if field.name in _DEFAULTS[JobOptions]]
    return tuple(found), attrgetter(*(name for name, _ in found))
