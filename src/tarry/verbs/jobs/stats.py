"""The results of views and settings of a topic. All immutable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from msgspec import UNSET, UnsetType

from tarry.errors import BodyError
from tarry.values.durations import as_timedelta
from tarry.values.keys import partition_of_name
from tarry.values.rates import Rate
from tarry.verbs.jobs.job_fields import given_max_attempts
from tarry.verbs.jobs.job_values import JobInfo
from tarry.verbs.jobs.precedence import MAX_ATTEMPTS, Level, decide

T = TypeVar("T")
LimitReason = Literal["pause", "rate", "concurrency", "key"]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late jobs were handed out since the topic began; percentiles are right to within a fifth.

    ``buckets`` counts them: bucket k holds latenesses whose successor lies from 2^(k/4) to 2^((k+1)/4) µs.
    """

    count: int
    p50: timedelta
    p99: timedelta
    max: timedelta
    buckets: Mapping[int, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, buckets: Mapping[int, int]) -> Lateness:
        """Makes a ``Lateness`` of the counts of its buckets. A percentile is the upper end of its bucket."""
        ordered = sorted(buckets.items())
        total = sum(buckets.values())

        def at(share: float) -> timedelta:
            seen = 0
            for bucket, n in ordered:
                seen += n
                if seen >= share * total:
                    return as_timedelta(math.ceil(2 ** ((bucket + 1) / 4)) - 2)
            return timedelta(0)

        return cls(total, at(0.5), at(0.99), at(1.0), dict(ordered))

    def since(self, earlier: Lateness) -> Lateness:
        """The lateness of jobs that were handed out after an earlier view."""
        gained = {bucket: n - earlier.buckets.get(bucket, 0) for bucket, n in self.buckets.items()}
        return Lateness.of({bucket: n for bucket, n in gained.items() if n > 0})


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """Why ready jobs are not handed out, and until when at least; ``None``: until ``resume``."""

    reason: LimitReason
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Stats:
    """The numbers of a topic at one moment. A reservation whose TTR is over counts as ready.

    ``limited`` says that ready jobs wait for a pause or a limit: they are not late. ``lateness`` does not count such waiting.
    """

    topic: str
    now: datetime
    delayed: int
    ready: int
    reserved: int
    dead: int
    next_due: datetime | None
    """When the first delayed job is due."""
    oldest_ready: datetime | None
    """When the ready job that waits for longest was due."""
    paused_until: datetime | None
    limited: LimitStatus | None
    watching: int
    """Consumers that keep the watch: two at most."""
    added: int
    popped: int
    finished: int
    released: int
    timed_out: int
    died: int
    too_late: int
    """Those of ``died`` that were later than their ``max_lateness``."""
    kicked: int
    deleted: int
    replaced: int
    refused: int
    """Receipts that were refused."""
    repeated: int
    lost: int
    swept: int
    lateness: Lateness
    retrying: int = 0
    """Those delayed jobs that have failed before."""
    finished_kept: int = 0
    """Finished jobs that are kept."""
    finished_lost: int = 0
    """Finished jobs of which not even the id could be kept: an add that says ``once`` adds them again."""
    died_lately: int = 0
    """Those dead jobs that died in the last ten minutes."""
    last_died: datetime | None = None
    """When the newest of the dead jobs died."""
    last_popped: datetime | None = None
    """When a job was last handed out."""
    expired: int = 0
    """How many of the ready jobs had a reservation that is over. The next pop puts them back."""
    damaged: int = 0
    """Records of jobs without a place, or places without a record."""
    due_in_1m: int = 0
    """Those delayed jobs that fall due in the next minute."""
    due_in_5m: int = 0
    due_in_15m: int = 0
    full: bool = False
    """Whether another job would be refused with ``TopicFull``; with partitions, by one of them."""
    not_added: int = 0
    """Jobs that were refused with ``TopicFull``."""
    held: int = 0
    """How often a schedule was due and waited, because the topic was full."""
    pending_bytes: int | None = None
    """The bytes of the bodies of delayed and ready jobs, where ``max_pending_bytes`` limits them; ``None``: not known, or not yet."""
    max_pending: int | None = None
    """The limits for producers, of all partitions together; ``None``: no such limit."""
    max_pending_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many jobs are due when. Bucket i spans ``start + i × width``."""

    now: datetime
    start: datetime
    width: timedelta
    before: int
    """Jobs that are due before the first bucket."""
    counts: tuple[int, ...]
    after: int
    """Jobs that are due after the last bucket."""


@dataclass(frozen=True, slots=True)
class DueSoon(Generic[T]):
    """The jobs of one partition that are due soon, and its limits, at one moment; times in server µs (lua/lib/limits.lua).

    ``rate``: so many, in so many µs, so many at once; ``spent``: since when, how many. 0 is no limit. ``within`` counts all jobs
    that are due, ``jobs`` are the first of them.
    """

    now_us: int
    paused_us: int
    rate: tuple[int, int, int]
    spent: tuple[int, int]
    concurrency: int
    max_lateness_us: int
    reserved: int
    expired: int
    within: int
    jobs: tuple[JobInfo[T], ...]
    share: tuple[int, int] = (0, 1)
    """Which partition it is, of how many."""

    def has_name(self, name: str) -> bool:
        """Whether what has this name, such as a schedule, is in this partition."""
        index, number = self.share
        return partition_of_name(name.encode(), number) == index


@dataclass(frozen=True, slots=True)
class MinuteCounts:
    """The numbers of a topic in one minute, or in one hour that began more than a day ago. ``failed`` counts attempts, the others jobs."""

    start: datetime
    added: int
    finished: int
    failed: int
    died: int


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic: those of its jobs, and the limits for all of them together.

    ``max_attempts=None``: no limit; ``keep_dead=None``: dead jobs stay forever. ``rate``, ``burst`` (how many may go at once
    after a quiet time), ``concurrency`` (how many may be reserved at a time) and ``max_lateness`` are ``None`` if there
    is no such limit.
    """

    ttr: timedelta
    max_attempts: int | None
    keep_dead: timedelta | None
    rate: Rate | None
    burst: int | None
    concurrency: int | None
    max_lateness: timedelta | None
    keep_finished: timedelta | None = None
    """How long finished jobs are kept; ``None``: not at all."""
    max_pending: int | None = None
    """How many jobs may wait before an add raises ``TopicFull``; ``None``: any number."""
    max_pending_bytes: int | None = None
    """How many bytes their bodies may have together; ``None``: any number."""
    key_concurrency: int | None = None
    """How many jobs of a key may be reserved at a time; ``None``: any number."""
    key_rate: Rate | None = None
    """How many jobs of a key may begin in a time; ``None``: any number."""
    fair: bool = False
    """Whether the keys take turns."""

    def attempts_of(self, job: JobInfo[Any], handlers: int | UnsetType | None) -> int | None:
        """How many attempts a job of this topic has: by itself, by its handler (``UNSET``: it does not say), or as it was last handed out."""
        own: int | UnsetType | None = UNSET
        with suppress(BodyError):
            own = given_max_attempts(job.head.max_attempts)
        topics = self.max_attempts if job.effective_max_attempts is None else job.effective_max_attempts
        given: dict[Level, Any] = {"job": own, "handler": handlers, "topic": topics}
        limit: int | None = decide(MAX_ATTEMPTS, given).value
        return limit


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of ``check``: without faults if all is well."""

    looked_at: int
    faults: tuple[str, ...]
    leaving: int = 0
    """Jobs on their way to another topic: a ``migrate`` is running, or was interrupted; run it again to continue."""
    schedules_leaving: int = 0

    @property
    def ok(self) -> bool:
        return not self.faults
