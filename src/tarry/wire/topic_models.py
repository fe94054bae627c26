"""Requests about topics: to read them, and to change them."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from tarry.verbs.jobs.dead_groups import LONGEST_SEARCH
from tarry.verbs.jobs.job_values import StateFilter
from tarry.verbs.workers import WorkerMode
from tarry.wire.types import (
    Attempts,
    DayWords,
    Key,
    Limit,
    LongSpan,
    Moment,
    Name,
    Pending,
    RateText,
    SomeSpan,
    SomeWords,
    Start,
    Strict,
    Ttr,
    WholeRate,
    Words,
    with_pattern,
)

CURSOR = "^[A-Za-z0-9_-]+={0,2}$"


SearchText = Annotated[str, Meta(min_length=1, max_length=LONGEST_SEARCH)]


class ListQuery(Strict):
    """Which jobs, and where the page begins. ``task``, ``error``, ``text`` (in the body) and ``group`` (of dead jobs) search."""

    state: StateFilter | None = None
    due_after: Moment | None = None
    due_before: Moment | None = None
    task: SearchText | None = None
    error: SearchText | None = None
    text: SearchText | None = None
    group: SearchText | None = None
    limit: Limit = 100
    cursor: Annotated[str, with_pattern(CURSOR)] | None = None


class DeadGroupsQuery(Strict):
    """Which dead jobs, how many one request reads, and where it begins."""

    task: SearchText | None = None
    error: SearchText | None = None
    text: SearchText | None = None
    group: SearchText | None = None
    limit: Limit = 1000
    cursor: Annotated[str, with_pattern(CURSOR)] | None = None


class EndsQuery(Strict):
    """``since``: the id of an end, or a moment; without it from now on."""

    since: Annotated[str, Meta(min_length=1, max_length=300)] | None = None


class HistogramQuery(Strict):
    """``buckets`` over ``span``, from ``start`` (after now, or a moment), or ``past`` before now."""

    start: Start = "0"
    span: SomeWords = "1h"
    buckets: Limit = 60
    past: Words = "0"


class ThroughputQuery(Strict):
    """The minutes of ``span`` before now, at most a week; hours of what is older than a day."""

    span: DayWords = "1d"


class Pause(Strict):
    """``duration``: how long; without it until ``resume``. ``key``: only the jobs of this key."""

    duration: SomeSpan | None = None
    key: Key | None = None


class ResumeQuery(Strict):
    """``key``: the pause of this key; without it that of the topic."""

    key: Key | None = None


class SetWorkerMode(Strict):
    """``quiet``: no new jobs, and those that it has go on; ``stop``: as SIGTERM; ``work``: again."""

    mode: WorkerMode


class KeysQuery(Strict):
    """``limit``: how many keys."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class Purge(Strict):
    """``state``: only these; without it all. ``key``: of this key, those that are delayed, ready or reserved."""

    state: StateFilter | None = None
    key: Key | None = None


class Configure(Strict):
    """An option that is left out stays. ``null``: a TTR of 60 s, no limit of attempts, dead jobs kept forever, finished jobs not
    kept, no such limit.

    ``rate``: jobs a second, or text such as ``"100/m"``.
    """

    ttr: Ttr | UnsetType | None = UNSET
    max_attempts: Attempts | UnsetType | None = UNSET
    keep_dead: LongSpan | UnsetType | None = UNSET
    rate: WholeRate | RateText | UnsetType | None = UNSET
    burst: WholeRate | UnsetType | None = UNSET
    concurrency: WholeRate | UnsetType | None = UNSET
    max_lateness: SomeSpan | UnsetType | None = UNSET
    keep_finished: LongSpan | UnsetType | None = UNSET
    max_pending: Pending | UnsetType | None = UNSET
    max_pending_bytes: Pending | UnsetType | None = UNSET
    key_concurrency: WholeRate | UnsetType | None = UNSET
    key_rate: WholeRate | RateText | UnsetType | None = UNSET
    fair: bool | UnsetType | None = UNSET
    retry_holds_key: bool | UnsetType | None = UNSET


class PutPartitions(Strict):
    """``number``: how many parts the topic has."""

    number: Annotated[int, Meta(ge=1, le=1024)]


class Migrate(Strict):
    """``to``: another topic of the namespace; ``limit``: about how many one request moves; ``dry_run``: only how many would move;
    ``redirect``: jobs that are being moved to another topic, which is gone for good, go to this one."""

    to: Name
    dry_run: bool = False
    redirect: bool = False
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
