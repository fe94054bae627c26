"""The forecast of a topic: how many jobs are handed out in the next minutes, for certain and at most; or why nothing is certain.

    what is due soon, schedules, live workers  ──▶  forecast_topic  ──▶  Forecast(waiting, certain, at_most, reason, sentence)

``certain``: so many hand-outs at least, as long as the workers live that are known now, whatever is added meanwhile. How long handlers
take is not known, so a slot that is free now counts for one job. ``at_most``: so many of the jobs that wait, and of the schedules'
occurrences, if each slot were free at once. Both are exact where no handler's length matters. Where nothing is certain, the first
of five reasons that is true says why. A task that a worker does not know does not run there: its jobs are not certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from tarry.programs.serving.conditions import span_text

if TYPE_CHECKING:
    from tarry.verbs.jobs.stats import DueSoon, Stats
    from tarry.verbs.workers import WorkerInfo, WorkerTopic

Reason = Literal["paused", "no_consumer", "unknown_tasks", "limited", "unknown_pace"]
REASONS: tuple[Reason, ...] = get_args(Reason)
MOST_READ = 500
"""So many jobs of a partition are looked at; the others are not certain."""
FAR = math.inf


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that waits, or an occurrence of a schedule: when it is due, its task, and how late it may be handed out (0: any)."""

    due_us: int
    task: str | None
    max_lateness_us: int = 0
    from_schedule: bool = False
    is_sure: bool = True
    """Not of an occurrence that was missed, and is perhaps not made up for."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """``waiting`` counts the jobs that are due within the time. ``reason`` is given where nothing is certain."""

    span: timedelta
    waiting: int
    certain: int
    at_most: int
    reason: Reason | None
    sentence: str


def forecast_topic(
    span: timedelta,
    stats: Stats,
    parts: Sequence[tuple[DueSoon[Any], Sequence[WaitingJob]]],
    workers: Sequence[WorkerInfo],
) -> Forecast:
    """The forecast from what is due soon in each partition, and the jobs of it that were read, with the schedules' occurrences."""
    serving = [
        (worker, one) for worker in workers if worker.takes_jobs for one in worker.topics if one.name == stats.topic
    ]
    topics = [one for _, one in serving]
    free = sum(_sure_slots(worker, one) for worker, one in serving) - sum(part.reserved for part, _ in parts)
    found = [_forecast_part(part, jobs, topics, round(span.total_seconds() * 1e6)) for part, jobs in parts]
    waiting, at_most = sum(one.waiting for one in found), sum(one.at_most for one in found)
    certain = min(max(free, 0), sum(one.certain for one in found)) if topics else 0
    reason = None if certain or not waiting else _reason(found, topics, stats, free)
    return Forecast(
        span, waiting, certain, at_most, reason, _sentence(span, waiting, certain, at_most, reason, found, topics)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    waiting: int
    certain: int
    at_most: int
    paused: bool
    limited: bool
    unknown: tuple[str, ...]
    runnable: int


def _forecast_part(
    part: DueSoon[Any], jobs: Sequence[WaitingJob], topics: Sequence[WorkerTopic], span_us: int
) -> _Part:
    ends = part.now_us + span_us
    opens = max(part.now_us, part.paused_us)
    known = [job for job in jobs if _is_known(job, topics)]
    possible = [job for job in jobs if _may_run(job, topics)]
    unread = max(part.within - sum(not job.from_schedule for job in jobs), 0)
    last = max((job.due_us for job in jobs if not job.from_schedule), default=part.now_us)
    earliest = sorted(
        [*(max(job.due_us, opens) for job in possible), *[max(last, opens)] * unread, *[opens] * part.expired]
    )
    at_most = sum(at <= ends for at in _handed_out_at(part, earliest))
    rate_is_shared = part.rate[0] > 0 and (len(known) < len(jobs) or unread > 0 or part.expired > 0)
    certain = 0 if rate_is_shared else sum(_certain(part, known, opens, ends))
    if part.concurrency:
        certain = min(certain, max(part.concurrency - part.reserved, 0))
    return _Part(
        waiting=part.within + part.expired + sum(job.from_schedule for job in jobs),
        certain=certain,
        at_most=at_most,
        paused=part.paused_us > ends,
        limited=certain == 0 and bool(part.rate[0] or part.concurrency),
        unknown=tuple(dict.fromkeys(job.task for job in jobs if job.task is not None and not _is_known(job, topics))),
        runnable=len(known),
    )


def _certain(part: DueSoon[Any], known: Sequence[WaitingJob], opens: int, ends: int) -> Iterator[bool]:
    """Of each job that all workers know, whether it is handed out before the end if a slot is free."""
    counted = [job for job in known if job.is_sure]
    if part.paused_us > part.now_us:  # occurrences that fall into a pause may become one
        counted = [job for job in counted if not job.from_schedule or job.due_us > opens]
    if part.rate[0] or part.concurrency:  # a schedule fires at a pop, which a limit may put off
        counted = [job for job in counted if not job.from_schedule]
    ordered = sorted(counted, key=lambda job: max(job.due_us, opens))
    moments = _handed_out_at(part, [max(job.due_us, opens) for job in ordered])
    for job, at in zip(ordered, moments, strict=True):
        latest = min((limit for limit in (job.max_lateness_us, part.max_lateness_us) if limit), default=FAR)
        yield at <= ends and at - job.due_us < latest


def _handed_out_at(part: DueSoon[Any], moments: Sequence[int]) -> list[float]:
    """When jobs are handed out that may be from these moments on, in order, if only the rate holds them back (lua/lib/limits.lua)."""
    count, span, burst = part.rate
    if not count:
        return list(moments)
    since, used = part.spent
    found: list[float] = []
    at = float(part.now_us)
    for moment in moments:
        at = max(at, moment)
        if since + used * span / count <= at:
            since, used = int(at), 0
        elif since + used * span / count > at + burst * span / count + 1:
            since, used = int(at), burst - 1
        at = max(at, since + math.ceil((used + 1 - burst) * span / count))
        if since + used * span / count <= at:
            since, used = int(at), 0
        used += 1
        whole = used // count
        since, used = since + whole * span, used - whole * count
        found.append(at)
    return found


def _sure_slots(worker: WorkerInfo, topic: WorkerTopic) -> int:
    """The slots that no other topic of the worker can take."""
    return topic.slots if len(worker.topics) == 1 else min(topic.slots, 1)


def _is_known(job: WaitingJob, topics: Sequence[WorkerTopic]) -> bool:
    """Whether every worker of the topic would run it."""
    return job.task is None or all(job.task in one.handlers for one in topics)


def _may_run(job: WaitingJob, topics: Sequence[WorkerTopic]) -> bool:
    """Whether a worker may run it: one that knows its task, or whose only handler may take any body."""
    if job.task is None or not topics:
        return True
    return any(
        job.task in one.handlers or (len(one.handlers) == 1 and job.task not in one.unknown_tasks) for one in topics
    )


def _reason(found: Sequence[_Part], topics: Sequence[WorkerTopic], stats: Stats, free: int) -> Reason:
    if all(part.paused for part in found if part.waiting):
        return "paused"
    if not topics:
        return "unknown_pace" if stats.watching or stats.last_popped is not None else "no_consumer"
    if any(part.unknown for part in found) and not any(part.certain for part in found):
        return "unknown_tasks"
    if free > 0 and any(part.limited for part in found):
        return "limited"
    return "unknown_pace"


def _sentence(
    span: timedelta,
    waiting: int,
    certain: int,
    at_most: int,
    reason: Reason | None,
    found: Sequence[_Part],
    topics: Sequence[WorkerTopic],
) -> str:
    within = f"Within {span_text(span.total_seconds())}"
    if not waiting:
        return f"{within} nothing is due."
    jobs = "1 job" if waiting == 1 else f"{waiting:,} jobs"
    if reason is None:
        many = "1 is" if certain == 1 else f"{certain:,} are"
        if certain == at_most:
            return f"{within} {many} handed out, of {jobs}."
        return f"{within} {many} handed out for certain, at most {at_most:,}, of {jobs}: more depends on how long handlers take."
    unknown = ", ".join(dict.fromkeys(repr(task) for part in found for task in part.unknown[:3]))
    why = {
        "paused": "the topic is paused for longer",
        "no_consumer": "no worker and no client takes them",
        "unknown_tasks": f"not every live worker knows {unknown}",
        "limited": "the topic's limit lets none go now, and how soon it does depends on handlers or on the rate",
        "unknown_pace": f"all {sum(one.slots for one in topics)} slots are busy, and how long handlers take is not known"
        if topics
        else "clients take them, and how fast is not known",
    }[reason]
    return f"{within} {jobs} {'is' if waiting == 1 else 'are'} due, and none is certain to be handed out: {why}."
