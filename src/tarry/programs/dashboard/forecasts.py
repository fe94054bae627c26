"""The facts for the forecast of a topic: the jobs that are due soon, with their tasks, and the occurrences of its schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from msgspec import MsgspecError

from tarry.errors import BadInput, BodyError
from tarry.programs.serving.forecast import Forecast, WaitingJob, forecast_topic
from tarry.values.durations import moment_us
from tarry.verbs.jobs.job_values import JobInfo, head_of
from tarry.verbs.jobs.schedule_info import Schedule
from tarry.verbs.jobs.stats import DueSoon, Stats
from tarry.verbs.workers import WorkerInfo
from tarry.worker.tasks import parse_envelope

SPAN = timedelta(minutes=5)
MOST_OCCURRENCES = 1000
"""Of one schedule."""


def forecast_of(
    stats: Stats, due: Sequence[DueSoon[Any]], schedules: Sequence[Schedule], workers: Sequence[WorkerInfo]
) -> Forecast:
    """The forecast of the next five minutes."""
    parts = [(part, [_waiting(job) for job in part.jobs]) for part in due]
    occurrences = [one for schedule in schedules for one in _occurrences(schedule, stats)]
    if len(parts) == 1:
        parts[0][1].extend(occurrences)
    elif occurrences:  # of a partition, but not of each: their share of a limit is not counted
        free = replace(due[0], rate=(0, 0, 0), concurrency=0, reserved=0, expired=0, within=0, jobs=())
        parts.append((free, occurrences))
    return forecast_topic(SPAN, stats, parts, workers)


def _waiting(job: JobInfo[Any]) -> WaitingJob:
    try:
        latest = head_of(job).max_lateness_us or 0
    except BodyError:
        latest = 0
    return WaitingJob(moment_us(job.due) if job.due else 0, _task_of(job), latest)


def _task_of(job: Any) -> str | None:
    """The task of a job or of a schedule's jobs; ``None`` if the body is no task's."""
    try:
        return parse_envelope(job).task
    except (BodyError, MsgspecError):
        return None


def _occurrences(schedule: Schedule, stats: Stats) -> list[WaitingJob]:
    if schedule.next is None or schedule.damaged:
        return []
    before = min(schedule.next, stats.now) - timedelta(microseconds=1)
    try:
        moments = schedule.following(MOST_OCCURRENCES, before)
    except BadInput:  # this machine does not know its time zone
        moments = [schedule.next]
    missed = [at for at in moments if at <= stats.now]
    ahead = [at for at in moments if stats.now < at <= stats.now + SPAN]
    if schedule.missed != "all":
        missed = missed[-1:]
    task = _task_of(schedule)
    return [
        *(WaitingJob(moment_us(at), task, 0, True, schedule.missed != "skip") for at in missed),
        *(WaitingJob(moment_us(at), task, 0, True) for at in ahead),
    ]
