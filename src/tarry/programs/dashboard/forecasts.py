"""The facts for the forecasts of a topic: the jobs that are due soon, with their tasks, and the occurrences of its schedules."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
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
MOST_MISSED = 1000
"""So many missed occurrences of a schedule are made up for, and no more are looked at."""
MOST_BY_CALENDAR = 5000
"""So many occurrences by calendar are computed for the next hour of a topic."""
MINUTE, MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)


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
    task = _task_of(schedule)
    return [
        *(WaitingJob(moment_us(at), task, 0, True, schedule.missed != "skip") for at in _missed(schedule, stats.now)),
        *(WaitingJob(moment_us(at), task, 0, True) for at in _between(schedule, stats.now, stats.now + SPAN)),
    ]


def jobs_by_minute(schedules: Sequence[Schedule], now: datetime, minutes: int) -> tuple[list[int], bool]:
    """How many jobs schedules add in each of the next minutes, missed ones in the first; and whether these are all."""
    counts, by_calendar = [0] * minutes, 0
    until = now + minutes * MINUTE - MICROSECOND
    for schedule in schedules:
        if schedule.next is None or schedule.damaged or schedule.next > until:
            continue
        counts[0] += sum(1 for _ in _missed(schedule, now))
        if schedule.every is not None:
            before = (
                (now - schedule.next) // schedule.every if schedule.next <= now else -1
            )  # of the last one up to now
            for minute in range(minutes):
                last = (now + (minute + 1) * MINUTE - MICROSECOND - schedule.next) // schedule.every
                counts[minute] += max(last - before, 0)
                before = max(last, before)
            continue
        for at in _between(schedule, now, until):
            counts[(at - now) // MINUTE] += 1
            by_calendar += 1
            if by_calendar == MOST_BY_CALENDAR:
                return counts, False
    return counts, True


def _missed(schedule: Schedule, now: datetime) -> Iterator[datetime]:
    """The occurrences up to now that the next pop makes up for: the last one, or all."""
    if schedule.next is None or schedule.next > now:
        return iter(())
    if schedule.missed != "all" and schedule.every is not None:
        return iter((now - (now - schedule.next) % schedule.every,))
    found = islice(_between(schedule, schedule.next - MICROSECOND, now), MOST_MISSED)
    return found if schedule.missed == "all" else iter(deque(found, 1))


def _between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The occurrences after a moment and up to another, computed one by one: most schedules have none."""
    at = schedule.next
    while at is not None and at <= until:
        if at > after:
            yield at
        try:
            at = next(iter(schedule.following(1, max(at, after))), None)
        except BadInput:  # this machine does not know its time zone
            return
