"""Answers about topics."""

from __future__ import annotations

from msgspec import Struct

from tarry.clients.http.wire.types import Answer, Milliseconds, Moment, ms
from tarry.verbs.jobs.stats import Check, Defaults, Histogram, Stats, Why
from tarry.verbs.workers import WorkerInfo


class TopicNames(Answer):
    """By name. A hint: a purged topic stays in it."""

    topics: list[str]


class Workers(Struct):
    """By name. A killed worker is listed for up to 30 s."""

    workers: list[WorkerInfo]


class LatenessShown(Struct):
    """How late jobs were handed out since the topic began; percentiles are right to within a fifth."""

    count: int
    p50_ms: Milliseconds
    p99_ms: Milliseconds
    max_ms: Milliseconds
    buckets: dict[str, int] = {}
    """Bucket k holds latenesses from 2^(k/4) µs to 2^((k+1)/4) µs, less one."""


class LimitedShown(Struct):
    """``until`` null: until ``resume``."""

    why: Why
    until: Moment | None


class TopicStats(Struct):
    """A topic at one moment. A reservation whose TTR is over counts as ready."""

    topic: str
    now: Moment
    delayed: int
    ready: int
    reserved: int
    dead: int
    next_due: Moment | None
    oldest_ready: Moment | None
    paused_until: Moment | None
    limited: LimitedShown | None
    """Ready jobs wait for a pause or a limit, until this moment at least: they are not late."""
    watching: int
    added: int
    popped: int
    finished: int
    released: int
    timed_out: int
    died: int
    kicked: int
    deleted: int
    replaced: int
    stale: int
    repeated: int
    lost: int
    swept: int
    lateness: LatenessShown


class TopicHistogram(Struct):
    """How many jobs are due when. Bucket i spans ``start + i × width_ms``."""

    now: Moment
    start: Moment
    width_ms: Milliseconds
    before: int
    counts: list[int]
    after: int


class TopicDefaults(Struct):
    """The defaults of the topic's jobs. ``null``: no limit of attempts, dead jobs kept for ever."""

    ttr_ms: Milliseconds
    max_attempts: int | None
    keep_ms: Milliseconds | None
    rate: str | None
    """A rate, such as ``100/1m``."""
    burst: int | None
    concurrency: int | None
    max_lateness_ms: Milliseconds | None


class TopicCheck(Struct):
    """``faults`` is empty when every job is in exactly one place. ``leaving``, ``schedules_leaving``: how many a running or
    interrupted move is moving to another topic."""

    looked_at: int
    faults: list[str]
    leaving: int = 0
    schedules_leaving: int = 0


class Paused(Struct):
    """``null``: until ``resume``."""

    until: Moment | None


class PartitionsShown(Struct):
    """1: a plain topic."""

    partitions: int


class MigratedShown(Struct):
    """``refused``: their ids are taken there; ``reserved``: held by a consumer; ``done`` false: there is more, ask again.

    ``schedules``, ``schedules_refused``: the same of schedules; ``options``: those that were copied.
    """

    moved: int
    refused: int
    reserved: int
    schedules: int
    schedules_refused: int
    options: list[str]
    done: bool


def topic_stats(now: Stats) -> TopicStats:
    late = now.lateness
    fields = {name: getattr(now, name) for name in TopicStats.__struct_fields__ if name not in ("lateness", "limited")}
    shown = LatenessShown(
        late.count, ms(late.p50), ms(late.p99), ms(late.max), {str(bucket): n for bucket, n in late.buckets.items()}
    )
    limited = None if now.limited is None else LimitedShown(now.limited.why, now.limited.until)
    return TopicStats(**fields, limited=limited, lateness=shown)


def topic_histogram(found: Histogram) -> TopicHistogram:
    return TopicHistogram(
        found.now, found.start, ms(found.width), found.before, list(found.counts), found.after
    )  # fmt: skip


def topic_defaults(now: Defaults) -> TopicDefaults:
    return TopicDefaults(
        ms(now.ttr),
        now.max_attempts,
        None if now.keep is None else ms(now.keep),
        None if now.rate is None else str(now.rate),
        now.burst,
        now.concurrency,
        None if now.max_lateness is None else ms(now.max_lateness),
    )


def topic_check(found: Check) -> TopicCheck:
    return TopicCheck(found.looked_at, list(found.faults), found.leaving, found.schedules_leaving)
