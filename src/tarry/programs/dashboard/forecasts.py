"""The facts for the forecasts of a topic: the jobs that are due soon, with their tasks, and the occurrences of its schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from msgspec import MsgspecError

from tarry import JobInfo, Schedule, Stats
from tarry.errors import BadInput, BodyError
from tarry.internal import DueSoon, as_datetime, head_of, moment_us, parse_envelope
from tarry.programs.serving.forecast import Forecast, Partition, forecast_topic
from tarry.programs.serving.pop_order import WaitingJob
from tarry.types import WorkerInfo

SPAN = timedelta(minutes=5)
MOST_OF_ONE, MOST_OCCURRENCES = 500, 1000
"""So many occurrences of a schedule, and of all, are looked at for a forecast."""
MOST_BY_CALENDAR = 5000
"""So many occurrences by calendar are computed for the next hour of a topic."""
MOST_MISSED = 1000
"""So many missed occurrences of a schedule are made up for."""
SHORTEST_BY_CALENDAR = timedelta(seconds=1)
MINUTE, MICROSECOND = timedelta(minutes=1), timedelta(microseconds=1)


def forecast_of(
    stats: Stats, due: Sequence[DueSoon[Any]], schedules: Sequence[Schedule], workers: Sequence[WorkerInfo]
) -> Forecast:
    """The forecast of the next five minutes."""
    occurrences: list[list[WaitingJob]] = [[] for _ in due]
    more, left = [0] * len(due), MOST_OCCURRENCES
    for schedule in schedules:
        place = next(place for place, part in enumerate(due) if part.has_name(schedule.id))
        found, others = _occurrences(schedule, due[place], min(left, MOST_OF_ONE))
        occurrences[place] += found
        more[place] += others
        left -= len(found)
    jobs = [[_waiting(job) for job in part.jobs] for part in due]
    parts = [Partition(*facts) for facts in zip(due, map(list.__add__, jobs, occurrences), more, strict=True)]
    return forecast_topic(SPAN, stats, parts, workers)


def _waiting(job: JobInfo[Any]) -> WaitingJob:
    due_us, task = moment_us(job.due) if job.due else 0, _task_of(job)
    try:
        head = head_of(job)
    except BodyError:
        return WaitingJob(due_us, task)
    return WaitingJob(due_us, task, head.max_lateness_us or 0, head.priority)


def _task_of(job: Any) -> str | None:
    """The task of a job or of a schedule's jobs; ``None`` if the body is no task's."""
    try:
        return parse_envelope(job).task
    except (BodyError, MsgspecError):
        return None


def _occurrences(schedule: Schedule, part: DueSoon[Any], most: int) -> tuple[list[WaitingJob], int]:
    """Its occurrences if it fires as soon as it can: not in a pause. A bounded number of them, and how many there may be beyond these."""
    until = as_datetime(part.now_us) + SPAN
    fires = min(as_datetime(max(part.now_us, part.paused_us)), until)
    if schedule.next is None or schedule.damaged or schedule.next > until:
        return [], 0
    task = _task_of(schedule)
    try:
        lateness, priority = (schedule.max_lateness or timedelta()) // MICROSECOND, schedule.priority
    except BodyError:
        lateness = priority = 0
    moments = _missed(schedule, fires, most)
    moments += islice(_between(schedule, fires, until), most - len(moments))
    found = [WaitingJob(moment_us(at), task, lateness, priority, from_schedule=True) for at in moments]
    if len(moments) < most:
        return found, 0
    last = max(moments, default=fires)
    unread = 0 if moments else MOST_MISSED if schedule.missed == "all" else 1
    return found, unread + (until - last) // (schedule.every or SHORTEST_BY_CALENDAR) + 1


def jobs_by_minute(schedules: Sequence[Schedule], now: datetime, minutes: int) -> tuple[list[int], bool]:
    """How many jobs schedules add in each of the next minutes, missed ones in the first; and whether these are all."""
    counts, by_calendar = [0] * minutes, 0
    until = now + minutes * MINUTE - MICROSECOND
    for schedule in schedules:
        if schedule.next is None or schedule.damaged or schedule.next > until:
            continue
        counts[0] += len(_missed(schedule, now))
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


def _missed(schedule: Schedule, moment: datetime, most: int = MOST_MISSED) -> list[datetime]:
    """The occurrences up to a moment that it makes up for then: none, the last one, or all, of these the first ones."""
    try:
        return schedule.missed_by(moment, most) if schedule.next is not None and schedule.next <= moment else []
    except BadInput:  # this machine does not know its time zone
        return []


def _between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The occurrences after a moment and up to another, computed one by one: most schedules have none."""
    at, every = schedule.next, schedule.every
    if at is not None and every is not None:
        first = at + max((after - at) // every + 1, 0) * every
        yield from (first + n * every for n in range((until - first) // every + 1))
        return
    while at is not None and at <= until:
        if at > after:
            yield at
        try:
            at = next(iter(schedule.following(1, max(at, after))), None)
        except BadInput:  # this machine does not know its time zone
            return
