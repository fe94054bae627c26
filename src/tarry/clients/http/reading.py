"""A service's answers as the library's own values: the same classes, made of JSON instead of a script's reply."""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta
from typing import Any, TypeVar

from msgspec import UNSET

from tarry.clients.http import answers, topic_answers
from tarry.verbs.codecs import JSON, RAW, Bodies
from tarry.verbs.jobs import stored
from tarry.verbs.jobs.pictures import Check, Defaults, Histogram, Lateness, Limited, Stats
from tarry.verbs.jobs.shapes import Added, JobInfo, Page
from tarry.verbs.jobs.taking import RawJob, Taken
from tarry.words import rates
from tarry.words.durations import MILLISECOND, moment
from tarry.words.rates import Rate

T = TypeVar("T")


def added(job: answers.AddedJob) -> Added:
    return Added(job.id, job.created, job.state, job.due)


def taken(found: answers.PoppedJobs) -> Taken:
    """Jobs of one look, as a script would have answered."""
    jobs = found.jobs
    now = moment(jobs[0].due) + round(jobs[0].lateness_ms * MILLISECOND) if jobs else 0
    return Taken(now, jobs[0].receipt if jobs else 0, 0, 0, False, [_raw(job) for job in jobs])


def _raw(job: answers.PoppedJob) -> RawJob:
    return job.id.encode(), _record(job), job.attempt, moment(job.due), round(job.ttr_ms * MILLISECOND)


def _record(job: answers.Job, ttr_ms: float | None = None, max_attempts: int | None = None) -> bytes:
    """The record as it is stored; nothing, where the service could not read it."""
    if job.created is None:
        return b""
    body, flag = _body(job)
    return stored.record(moment(job.created), flag, round(ttr_ms or 0), max_attempts or 0, job.headers, body)


def _body(job: answers.Job) -> tuple[bytes, int]:
    if job.body is not UNSET:
        return bytes(job.body), JSON
    return b64decode(job.body_base64 or ""), JSON if job.coded else RAW


def info(job: answers.JobShown, bodies: Bodies[T]) -> JobInfo[T]:
    since = job.due or job.reserved_until or job.died
    run = stored.Run(
        attempt=job.attempts,
        limit=0,
        receipt=job.receipt or 0,
        first_failure=moment(job.first_failure) if job.first_failure else 0,
        holder=job.holder or "",
        fault="\n".join([job.reason or "", *([job.error] if job.error else [])]),
    )
    record = _record(job, job.ttr_ms, job.max_attempts)
    raw = [job.id.encode(), job.state.encode(), moment(since) if since else 0, record, stored.run_record(run)]
    return JobInfo(job.topic, bodies, raw)


def page(found: answers.JobPage, bodies: Bodies[T]) -> Page[T]:
    return Page(tuple(info(job, bodies) for job in found.jobs), found.cursor)


def stats(now: topic_answers.TopicStats) -> Stats:
    names = [name for name in now.__struct_fields__ if name not in ("lateness", "limited")]
    said: dict[str, Any] = {name: getattr(now, name) for name in names}
    said["limited"] = now.limited and Limited(now.limited.why, now.limited.until)
    return Stats(**said, lateness=Lateness.of({int(bucket): n for bucket, n in now.lateness.buckets.items()}))


def histogram(found: topic_answers.TopicHistogram) -> Histogram:
    return Histogram(found.now, found.start, _ms(found.width_ms), found.before, tuple(found.counts), found.after)


def check(found: topic_answers.TopicCheck) -> Check:
    return Check(found.looked_at, tuple(found.faults))


def defaults(now: topic_answers.TopicDefaults) -> Defaults:
    keep, latest = [None if span is None else _ms(span) for span in (now.keep_ms, now.max_lateness_ms)]
    return Defaults(_ms(now.ttr_ms), now.max_attempts, keep, _rate(now.rate), now.burst, now.concurrency, latest)


def _rate(text: str | None) -> Rate | None:
    if text is None:
        return None
    count, us = rates.rate(text.replace(" ", ""))
    return Rate(count, timedelta(microseconds=us))


def _ms(span: float) -> timedelta:
    return timedelta(microseconds=round(span * MILLISECOND))
