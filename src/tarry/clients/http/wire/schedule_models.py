"""Requests about schedules."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from tarry.clients.http.wire.types import (
    NO_DOTS,
    AnyJson,
    Attempts,
    Base64,
    Headers,
    Moment,
    Period,
    Priority,
    SomeSpan,
    Strict,
    Ttr,
    with_pattern,
)
from tarry.verbs.schedules.records import Missed

_NAME = r"[^\s\x00-\x1f\x7f-\x9f{}]+$"
_BYTES = Meta(description="1 to 160 bytes of UTF-8")
ScheduleName = Annotated[str, with_pattern("^" + _NAME, minLength=1, maxLength=160), _BYTES]
NewScheduleName = Annotated[str, with_pattern(NO_DOTS + _NAME, minLength=1, maxLength=160), _BYTES]


class PutSchedule(Strict):
    """``every``, or ``cron`` in the time zone ``tz``. ``first``: the first moment of ``every``. Without a body it is ``null``.

    ``missed``: what becomes of occurrences at which no client popped. The rest is as for a job.
    """

    every: Period | None = None
    cron: Annotated[str, Meta(max_length=200)] | None = None
    tz: Annotated[str, Meta(max_length=100)] = "UTC"
    first: Moment | None = None
    missed: Missed = "once"
    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    ttr: Ttr | None = None
    max_attempts: Attempts | UnsetType | None = UNSET
    max_lateness: SomeSpan | None = None
    priority: Priority | None = None
    headers: Headers | None = None
