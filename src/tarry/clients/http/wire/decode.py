"""A service's answers as the library's own values: the same classes, made of JSON instead of a script's reply."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import fields
from datetime import timedelta
from typing import Any, TypeVar

from msgspec import UNSET

from tarry.clients import schedule_verbs
from tarry.clients.http.wire import (
    answers,
    guarded_answers,
    lock_answers,
    map_answers,
    queue_answers,
    schedule_answers,
    topic_answers,
)
from tarry.clients.schedule_verbs import Schedule
from tarry.errors import BodyError
from tarry.values import rates
from tarry.values.durations import MILLISECOND, moment_us
from tarry.values.rates import Rate
from tarry.verbs.codecs import JSON, RAW, BodyCodec
from tarry.verbs.delayed.stats import QueueStats
from tarry.verbs.delayed.transfer import SetAside
from tarry.verbs.guarded.context import GuardedStats, Item
from tarry.verbs.jobs import records
from tarry.verbs.jobs.models import Added, JobInfo, Page
from tarry.verbs.jobs.pop import PopReply, RawJob
from tarry.verbs.jobs.stats import Check, Defaults, Histogram, Lateness, Limited, Stats
from tarry.verbs.locks.models import LockState
from tarry.verbs.mapcache.models import MapStats
from tarry.verbs.schedules.records import ScheduleOptions, ScheduleRecord, StoredSchedule
from tarry.verbs.schedules.recurrences import Recurrence

T = TypeVar("T")


def added(job: answers.AddedJob) -> Added:
    return Added(job.id, job.created, job.state, job.due)


def pop_reply(found: answers.PoppedJobs) -> list[PopReply]:
    """Each job as a script would have answered it alone: one answer may have jobs of many partitions, each with a receipt and
    a moment of its own."""
    return [PopReply(_popped_at(job), job.receipt, 0, 0, False, [_raw_job(job)]) for job in found.jobs]


def _popped_at(job: answers.PoppedJob) -> int:
    """When it was handed out, by its server's clock."""
    return moment_us(job.due) + round(job.lateness_ms * MILLISECOND)


def _raw_job(job: answers.PoppedJob) -> RawJob:
    return job.id.encode(), _job_record(job), job.attempt, moment_us(job.due), round(job.ttr_ms * MILLISECOND)


def _job_record(job: answers.JobFields, ttr_ms: float | None = None, max_attempts: int | None = None) -> bytes:
    """The record as it is stored; nothing, where the service could not read it."""
    if job.created is None:
        return b""
    body, flag = _body(job)
    return records.pack_job(moment_us(job.created), flag, round(ttr_ms or 0), max_attempts or 0, _headers(job), body)


def _headers(job: answers.Carried) -> bytes:
    return records.pack_headers(job.headers) if job.unreadable is None else records.DAMAGED_HEADERS


def _body(job: answers.Carried | guarded_answers.GuardedItem) -> tuple[bytes, int]:
    if job.body is not UNSET:
        return bytes(job.body), JSON
    return b64decode(job.body_base64 or ""), JSON if job.coded else RAW


def job_info(job: answers.JobShown, bodies: BodyCodec[T]) -> JobInfo[T]:
    since = job.due or job.reserved_until or job.died
    run = records.RunRecord(
        attempt=job.attempts,
        limit=job.attempt_limit or 0,
        receipt=job.receipt or 0,
        first_failure=moment_us(job.first_failure) if job.first_failure else 0,
        holder=job.holder or "",
        fault="\n".join([job.reason or "", *([job.error] if job.error else [])]),
    )
    record = _job_record(job, job.ttr_ms, job.max_attempts)
    raw = [job.id.encode(), job.state.encode(), moment_us(since) if since else 0, record, records.pack_run(run)]
    return JobInfo(job.topic, bodies, raw)


def page(found: answers.JobPage, bodies: BodyCodec[T]) -> Page[T]:
    return Page(tuple(job_info(job, bodies) for job in found.jobs), found.cursor)


def stats(now: topic_answers.TopicStats) -> Stats:
    names = [name for name in now.__struct_fields__ if name not in ("lateness", "limited")]
    said: dict[str, Any] = {name: getattr(now, name) for name in names}
    said["limited"] = now.limited and Limited(now.limited.why, now.limited.until)
    return Stats(**said, lateness=Lateness.of({int(bucket): n for bucket, n in now.lateness.buckets.items()}))


def histogram(found: topic_answers.TopicHistogram) -> Histogram:
    return Histogram(found.now, found.start, _ms(found.width_ms), found.before, tuple(found.counts), found.after)


def check(found: topic_answers.TopicCheck) -> Check:
    return Check(found.looked_at, tuple(found.faults), found.leaving, found.schedules_leaving)


def defaults(now: topic_answers.TopicDefaults) -> Defaults:
    keep, latest = [None if span is None else _ms(span) for span in (now.keep_ms, now.max_lateness_ms)]
    return Defaults(_ms(now.ttr_ms), now.max_attempts, keep, _rate(now.rate), now.burst, now.concurrency, latest)


def _rate(text: str | None) -> Rate | None:
    if text is None:
        return None
    count, us = rates.parse_rate(text.replace(" ", ""))
    return Rate(count, timedelta(microseconds=us))


def _ms(span: float) -> timedelta:
    return timedelta(microseconds=round(span * MILLISECOND))


# ── queues, maps, locks ──────────────────────────────────────────────────────────────────────────────────────────────


def set_aside(found: queue_answers.Poison) -> list[SetAside]:
    return [SetAside(b64decode(one.raw_base64), one.reason) for one in found.elements]


def queue_stats(now: queue_answers.QueueStatsShown) -> QueueStats:
    return QueueStats(**{field.name: getattr(now, field.name) for field in fields(QueueStats)})


def map_stats(name: str, now: map_answers.MapSize) -> MapStats:
    return MapStats(name, **{name: getattr(now, name) for name in now.__struct_fields__})


def lock_state(now: lock_answers.LockShown) -> LockState:
    remaining = None if now.remaining_ms is None else _ms(now.remaining_ms)
    return LockState(now.lock, now.held, now.holder, now.depth, now.token, remaining, now.waiting)


def items(found: guarded_answers.GuardedItems, bodies: BodyCodec[Any]) -> list[Item[Any]]:
    return [Item(_value(one, bodies), one.due, _ms(one.lateness_ms)) for one in found.items]


def _value(one: guarded_answers.GuardedItem, bodies: BodyCodec[Any]) -> Any:
    """As it is, where it cannot be read: it is out of the queue already, and better so than lost."""
    raw, flag = _body(one)
    try:
        return bodies.decode(raw, flag)
    except BodyError:
        return raw


def guarded_stats(now: guarded_answers.GuardedStatsShown) -> GuardedStats:
    return GuardedStats(now.size, now.overdue, now.next_due, _ms(now.lateness_ms))


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def schedule(now: schedule_answers.ScheduleShown, bodies: BodyCodec[Any]) -> Schedule:
    recurrence = Recurrence(
        0 if now.every_ms is None else round(now.every_ms * MILLISECOND), now.cron or "", now.tz or "UTC"
    )
    last, changed = moment_us(now.last) if now.last else 0, moment_us(now.changed)
    about, value = ScheduleOptions(now.missed), _head_and_body(now)
    plan = ScheduleRecord(
        now.id, now.paused, last, changed, now.fired, now.skipped, recurrence, about, value, now.damaged
    )
    orphaned, declared = now.orphaned, None if now.declared is None else moment_us(now.declared)
    next = None if now.next is None else moment_us(now.next)
    return schedule_verbs.make_schedule(
        now.topic, bodies, StoredSchedule(plan, next, now.from_code, orphaned, now.version, declared)
    )


def _head_and_body(now: schedule_answers.ScheduleShown) -> bytes:
    """As they are stored; nothing, where the service could not read them."""
    if now.body is UNSET and now.body_base64 is None:
        return b""
    body, flag = _body(now)
    latest = None if now.max_lateness_ms is None else round(now.max_lateness_ms * MILLISECOND)
    attempts = 0 if now.max_attempts is UNSET else records.NO_LIMIT if now.max_attempts is None else now.max_attempts
    return records.pack_head(flag, round(now.ttr_ms or 0), attempts, records.NO_NONCE, _headers(now), latest) + body
