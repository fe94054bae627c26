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
LimitReason = Literal["pause", "rate", "concurrency", "key", "retry"]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late the jobs of a topic were handed out, since the topic began. Percentiles may be up to a fifth too high, because
    lateness is counted in buckets."""

    count: int
    """How many jobs were handed out."""
    p50: timedelta
    """The median: half of the jobs were at most this late."""
    p99: timedelta
    """99 of 100 jobs were at most this late."""
    max: timedelta
    """The greatest lateness of a job, up to a fifth too high: the upper end of its bucket."""
    buckets: Mapping[int, int] = field(default_factory=dict, repr=False)
    """The number of jobs in each bucket. Bucket k has the jobs that were at least 2^(k/4) - 1 µs late, and less than
    2^((k+1)/4) - 1 µs."""

    @classmethod
    def of(cls, buckets: Mapping[int, int]) -> Lateness:
        """Makes a ``Lateness`` from the number of jobs in each bucket."""
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
        """The lateness of the jobs that were handed out after ``earlier`` was read."""
        gained = {bucket: n - earlier.buckets.get(bucket, 0) for bucket, n in self.buckets.items()}
        return Lateness.of({bucket: n for bucket, n in gained.items() if n > 0})


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """Why ready jobs are not handed out now, and when the next one can be handed out at the earliest."""

    reason: LimitReason
    """The cause: ``pause``, ``rate``, ``concurrency``, ``key`` (the limits of their keys hold back all ready jobs) or ``retry``
    (an earlier job of the key waits for its next attempt)."""
    until: datetime | None
    """The earliest moment at which a ready job can be handed out; ``None`` if the jobs wait until ``resume`` is called, or until another job ends."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The numbers of a topic at one moment."""

    topic: str
    """The topic's name."""
    now: datetime
    """The moment of these numbers, by the server's clock."""
    delayed: int
    """Jobs that are not due yet."""
    ready: int
    """Jobs that may be handed out, including those whose reservation is over."""
    reserved: int
    """Jobs that a consumer has."""
    dead: int
    """Jobs that were set aside and are kept."""
    next_due: datetime | None
    """When the first delayed job is due."""
    oldest_ready: datetime | None
    """When the first of the ready jobs was due."""
    paused_until: datetime | None
    """When the pause ends; in the year 9999 if only ``resume`` ends it. ``None``: the topic is not paused."""
    limited: LimitStatus | None
    """The pause or limit that ready jobs wait for; this wait does not count as lateness. ``None``: nothing holds the ready jobs back."""
    watching: int
    """How many consumers have promised to look when the next job is due: two at most."""
    added: int
    popped: int
    finished: int
    released: int
    timed_out: int
    died: int
    too_late: int
    """Jobs that died because they were later than their ``max_lateness``; ``died`` counts them, too."""
    kicked: int
    deleted: int
    replaced: int
    refused: int
    """Receipts that were refused."""
    repeated: int
    lost: int
    swept: int
    lateness: Lateness
    """How late jobs were handed out. The time of a pause or a limit does not count."""
    retrying: int = 0
    """Delayed jobs that have failed before."""
    finished_kept: int = 0
    """Finished jobs that are kept."""
    finished_lost: int = 0
    """Finished jobs whose ids could not be kept, so an add by the rule ``once`` would add them again."""
    died_lately: int = 0
    """Dead jobs that became dead in the last ten minutes."""
    last_died: datetime | None = None
    """When the latest of the dead jobs died."""
    last_popped: datetime | None = None
    """When a job was last handed out."""
    expired: int = 0
    """Jobs whose reservation is over. They count as ready, and the next pop puts them back."""
    damaged: int = 0
    """Faults: jobs whose record is missing, and records of jobs that are in no state. ``check`` lists them."""
    due_in_1m: int = 0
    """Delayed jobs that will be due in the next minute."""
    due_in_5m: int = 0
    """Delayed jobs that will be due in the next five minutes."""
    due_in_15m: int = 0
    """Delayed jobs that will be due in the next fifteen minutes."""
    full: bool = False
    """Whether a new job would be refused with ``TopicFull``; with partitions, whether at least one partition would refuse it."""
    not_added: int = 0
    """Jobs that were refused with ``TopicFull``."""
    held: int = 0
    """How often a schedule was due but had to wait, because the topic was full."""
    pending_bytes: int | None = None
    """The bytes of the bodies of delayed and ready jobs; ``None``: ``max_pending_bytes`` does not limit them, or they are not
    counted yet."""
    max_pending: int | None = None
    """How many jobs may wait, in all partitions together; ``None``: any number."""
    max_pending_bytes: int | None = None
    """How many bytes the bodies of waiting jobs may have, in all partitions together; ``None``: any number."""
    held_back: int = 0
    """Ready jobs that cannot be handed out now, because others of their key run, or their key has spent its rate, is paused or waits for a
    retry. The number is exact if at most 100 keys have a job that can be handed out. With more such keys and a ``key_concurrency`` above 1
    it may be too high, because it assumes that only one job of each further key can be handed out."""
    can_go_since: datetime | None = None
    """Since when the topic could have handed out a job. Only ready jobs that no key holds back count; ``None`` if there is none."""


@dataclass(frozen=True, slots=True)
class KeyStats:
    """The jobs of one key at one moment. Dead and finished jobs are not counted."""

    topic: str
    """The topic's name."""
    key: str
    """The key."""
    now: datetime
    """The moment of these numbers, by the server's clock."""
    delayed: int
    """Jobs of the key that are not due yet."""
    ready: int
    """Jobs of the key that are due and not reserved."""
    reserved: int
    """Reserved jobs of the key. A job whose reservation has ended counts until a pop makes it ready again."""
    held_back: int
    """Ready jobs of the key that cannot be handed out now, because of a limit or a pause."""
    limited: LimitStatus | None
    """Why no ready job of the key can be handed out now; ``None`` if one can, or if there is none. The reason is ``pause``, ``rate``,
    ``concurrency`` (other jobs of the key run) or ``retry`` (an earlier job of the key waits for its next attempt)."""
    next_run: datetime | None
    """When the next job of the key can be handed out; ``None`` if no job waits, or if a reserved job of the key must end first."""
    paused_until: datetime | None
    """When the key's pause ends; in the year 9999 if only ``resume`` ends the pause; ``None`` if the key is not paused."""
    concurrency: int | None
    """The topic's ``key_concurrency``."""
    rate: Rate | None
    """The topic's ``key_rate``."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many jobs are due in each of several equal spans of time, the buckets. Bucket i begins at ``start + i × width``."""

    now: datetime
    """The moment of these numbers, by the server's clock."""
    start: datetime
    """When the first bucket begins."""
    width: timedelta
    """How long each bucket is."""
    before: int
    """How many jobs are due before the first bucket."""
    counts: tuple[int, ...]
    """How many jobs are due in each bucket."""
    after: int
    """How many jobs are due after the last bucket."""


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
    """The numbers of a topic for one minute, or for one hour if they are older than a day."""

    start: datetime
    """When the minute, or the hour, begins."""
    added: int
    """Jobs that were added."""
    finished: int
    """Jobs that were finished."""
    failed: int
    """Attempts that failed."""
    died: int
    """Jobs that became dead."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of a topic: those of its jobs, and the limits for all of them together."""

    ttr: timedelta
    """The time to run of its jobs."""
    max_attempts: int | None
    """How often a job may be handed out; ``None``: without a limit."""
    keep_dead: timedelta | None
    """How long dead jobs are kept; ``None``: forever."""
    rate: Rate | None
    """The most jobs that are handed out in a span of time; ``None``: any number."""
    burst: int | None
    """How many jobs may be handed out at once after a quiet time; ``None``: there is no rate."""
    concurrency: int | None
    """How many jobs may be reserved at a time; ``None``: any number."""
    max_lateness: timedelta | None
    """How late a job may be handed out; a job that would be handed out later becomes dead. ``None``: however late."""
    keep_finished: timedelta | None = None
    """How long finished jobs are kept; ``None``: not at all."""
    max_pending: int | None = None
    """How many jobs may wait before an add raises ``TopicFull``; ``None``: any number."""
    max_pending_bytes: int | None = None
    """How many bytes the bodies of waiting jobs may have together; ``None``: any number."""
    key_concurrency: int | None = None
    """How many jobs of one key may be reserved at a time; ``None``: any number."""
    key_rate: Rate | None = None
    """The most jobs of one key that begin in a span of time; ``None``: any number."""
    fair: bool = False
    """Whether the keys take turns."""
    retry_holds_key: bool = False
    """Whether a job that waits for a retry keeps the other jobs of its key waiting."""

    def attempts_of(self, job: JobInfo[Any], handlers: int | UnsetType | None) -> int | None:
        """How many attempts a job of this topic may have. The job's own option counts first, then that of its handler (``UNSET``:
        the handler sets none), then the topic's."""
        own: int | UnsetType | None = UNSET
        with suppress(BodyError):
            own = given_max_attempts(job.head.max_attempts)
        topics = self.max_attempts if job.effective_max_attempts is None else job.effective_max_attempts
        given: dict[Level, Any] = {"job": own, "handler": handlers, "topic": topics}
        limit: int | None = decide(MAX_ATTEMPTS, given).value
        return limit


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of ``check``. It has no ``faults`` if all is well."""

    looked_at: int
    """How many records and places were compared."""
    faults: tuple[str, ...]
    """A line for each fault."""
    leaving: int = 0
    """How many jobs are on their way to another topic, because a ``migrate`` is running, or was interrupted. Run ``migrate`` again to continue."""
    schedules_leaving: int = 0
    """How many schedules are on their way to another topic, because a ``migrate`` is running, or was interrupted."""

    @property
    def ok(self) -> bool:
        """Whether there are no faults."""
        return not self.faults
