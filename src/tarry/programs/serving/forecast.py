"""The forecast of a topic: how many jobs are handed out in the next minutes, for certain and at most; or why nothing is certain.

    what is due soon, schedules, live workers  ──▶  forecast_topic  ──▶  Forecast(waiting, certain, at_most, reason, sentence)

``certain``: so many hand-outs at least, as long as the workers live that are known now, and no job takes longer than the longest that
they report of the last hour; whatever is added meanwhile. If the length of a waiting task is not known, a slot that is free now
counts for one job. ``at_most``: so many of the jobs that wait, and of the schedules' occurrences, if each slot were free at once.
Both are exact where no handler's length matters. Where nothing is certain, the first of five reasons that is true says why. A
task that a worker does not know does not run there: its jobs are not certain.

Why it holds: at any moment either all jobs that may run have been handed out, or all slots are busy, and each of these was taken within
the longest time L that a job takes. So the hand-outs N(t) are at least min(may run(t), N(t − L) + slots), as if each job took L. A job
that may become too late, or an occurrence that needs a pop at its moment, is only counted where that schedule lets it not wait.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heapify, heapreplace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, get_args

from tarry.programs.serving.conditions import span_text

if TYPE_CHECKING:
    from tarry.verbs.jobs.stats import DueSoon, Stats
    from tarry.verbs.workers import WorkerInfo, WorkerTopic

Reason = Literal["paused", "no_consumer", "unknown_tasks", "limited", "unknown_pace"]
REASONS: tuple[Reason, ...] = get_args(Reason)
MOST_READ = 500
"""So many jobs of a partition are looked at; the others are not certain."""
MILLISECOND_US = 1000
SETTLE_US = 100 * MILLISECOND_US
"""Between the end of a handler and the next hand-out: the job is finished, and the next one popped."""
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


@dataclass(frozen=True, slots=True)
class _Slots:
    """The slots that no other topic can take: those that are ``free``, those that are free ``later`` by ``length_us``, and those
    that count ``once``. ``running`` jobs end by then. ``at_once`` are free now."""

    free: int
    later: int
    once: int
    running: int
    length_us: float

    @property
    def at_once(self) -> int:
        return self.free + self.once


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A job that every worker knows, from when on it may be handed out, and until when."""

    opens_us: int
    ends_us: float
    from_schedule: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """The facts of a partition. ``doomed`` jobs are too late already."""

    due: DueSoon[Any]
    waiting: int
    doomed: int
    at_most: int
    candidates: list[_Candidate]
    paused: bool
    unknown: tuple[str, ...]

    @property
    def has_limit(self) -> bool:
        return bool(self.due.rate[0] or self.due.concurrency)


@dataclass(slots=True)
class _Places:
    """Places of which each job needs one, with the moments at which they are free: slots, or the topic's concurrency."""

    free_at: list[tuple[float, float]] = field(default_factory=list)
    """When it is free, and for how long a job keeps it."""

    def __post_init__(self) -> None:
        heapify(self.free_at)


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
    span_us = round(span.total_seconds() * 1e6)
    found = [_read_part(part, jobs, topics, span_us) for part, jobs in parts]
    handlers = {name for one in topics for name in one.handlers}
    tasks = {job.task for _, jobs in parts for job in jobs} & {None, *handlers}
    slots = _slots(serving, tasks, sum(part.reserved for part, _ in parts))
    certain = _certain(found, slots, span_us) if topics else 0
    waiting, at_most = sum(one.waiting for one in found), sum(one.at_most for one in found)
    reason = None if certain or not waiting else _reason(found, topics, stats, slots)
    sentence = _sentence(span, waiting, certain, at_most, reason, found, topics, slots)
    return Forecast(span, waiting, certain, at_most, reason, sentence)


def _read_part(part: DueSoon[Any], jobs: Sequence[WaitingJob], topics: Sequence[WorkerTopic], span_us: int) -> _Part:
    ends = part.now_us + span_us
    opens = max(part.now_us, part.paused_us)
    latest = {job: job.due_us + (job.max_lateness_us or part.max_lateness_us or FAR) for job in jobs}
    alive = [job for job in jobs if max(job.due_us, opens) <= latest[job]]
    known = [job for job in alive if _is_known(job, topics)]
    possible = [job for job in alive if _may_run(job, topics)]
    unread = max(part.within - sum(not job.from_schedule for job in jobs), 0)
    last = max((job.due_us for job in jobs if not job.from_schedule), default=part.now_us)
    earliest = sorted(
        [*(max(job.due_us, opens) for job in possible), *[max(last, opens)] * unread, *[opens] * part.expired]
    )
    candidates = [
        _Candidate(max(job.due_us, opens), latest[job], job.from_schedule) for job in known if _is_sure(job, part)
    ]
    if part.rate[0] and (len(known) < len(alive) or unread or part.expired):
        candidates = []  # those jobs spend of the rate for a moment
    unsure = sum(job.from_schedule and not _is_sure(job, part) and not _is_limited(part) for job in alive)
    return _Part(
        due=part,
        waiting=len(alive) - unsure + unread,
        doomed=len(jobs) - len(alive),
        at_most=sum(at <= ends for at in _handed_out(part, earliest)),
        candidates=candidates,
        paused=part.paused_us > ends,
        unknown=tuple(dict.fromkeys(job.task for job in alive if job.task is not None and not _is_known(job, topics))),
    )


def _is_limited(part: DueSoon[Any]) -> bool:
    return bool(part.rate[0] or part.concurrency)


def _is_sure(job: WaitingJob, part: DueSoon[Any]) -> bool:
    """Whether the job is there, or becomes one at its moment."""
    if not job.from_schedule:
        return True
    if not job.is_sure or _is_limited(part):  # a schedule fires at a pop, which a limit may put off
        return False
    return part.paused_us <= part.now_us or job.due_us > part.paused_us  # several in a pause may become one


def _certain(parts: Sequence[_Part], slots: _Slots, span_us: int) -> int:
    """How many hand-outs are certain."""
    if len(parts) > 1 and any(part.has_limit for part in parts):
        # which partition a slot goes to changes what is left of its limit: each slot that is free now counts once
        counts = [
            _count(part.due, part.candidates, _concurrency(part.due, slots), span_us)
            for part in parts
            if part.has_limit
        ]
        counts += [
            len([one for one in part.candidates if not one.from_schedule and one.opens_us <= part.due.now_us + span_us])
            for part in parts
            if not part.has_limit
        ]
        return min(slots.at_once, sum(counts))
    part = parts[0].due
    now, length = part.now_us, slots.length_us
    places = _Places(
        [*[(now, FAR)] * slots.once, *[(now, length)] * slots.free, *[(now + length, length)] * slots.later]
    )
    candidates = [one for part in parts for one in part.candidates]
    return _count(part, candidates, [places, *_concurrency(part, slots)], span_us)


def _concurrency(part: DueSoon[Any], slots: _Slots) -> list[_Places]:
    """The places of the topic's concurrency: of those that are taken, the ones of running jobs of workers come back."""
    if not part.concurrency:
        return []
    now, length = part.now_us, slots.length_us
    free = max(part.concurrency - part.reserved, 0)
    later = min(part.concurrency - free, slots.running)
    return [_Places([*[(now, length)] * free, *[(now + length, length)] * later])]


def _count(part: DueSoon[Any], candidates: Sequence[_Candidate], places: Sequence[_Places], span_us: int) -> int:
    """Of jobs that all workers know, how many are handed out before the end, if each takes as long as one may."""
    ends = part.now_us + span_us
    ordered = sorted(candidates, key=lambda one: one.opens_us)
    moments = _handed_out(part, [one.opens_us for one in ordered], places)
    at_once = sum(
        1 for _ in takewhile(lambda pair: pair[0].opens_us == pair[1] <= ends, zip(ordered, moments, strict=True))
    )
    wait = _longest_wait(ordered, moments)
    safe = [
        one.opens_us
        for one, at in zip(ordered, moments, strict=True)
        if (at == one.opens_us if one.from_schedule else one.ends_us == FAR or one.opens_us + wait < one.ends_us)
    ]
    return max(at_once, sum(at <= ends for at in _handed_out(part, safe, places)))


def _longest_wait(ordered: Sequence[_Candidate], moments: Sequence[float]) -> float:
    """The longest time in which some job always waits: none waits for longer, in whatever order they are handed out."""
    longest = begins = until = 0.0
    for one, at in zip(ordered, moments, strict=True):
        if one.opens_us > until:
            begins = one.opens_us
        until = max(until, at)
        longest = max(longest, until - begins)
    return longest


def _handed_out(part: DueSoon[Any], moments: Sequence[int], places: Sequence[_Places] = ()) -> list[float]:
    """When jobs are handed out that may be from these moments on, in order, if only the rate (lua/lib/limits.lua) and the places
    hold them back."""
    count, span, burst = part.rate
    since, used = part.spent
    heaps = [list(one.free_at) for one in places]
    found: list[float] = []
    at = float(part.now_us)
    for moment in moments:
        at = max(at, moment, *(heap[0][0] if heap else FAR for heap in heaps))
        if at == FAR:
            return [*found, *[FAR] * (len(moments) - len(found))]
        if count:
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
        for heap in heaps:
            heapreplace(heap, (at + heap[0][1], heap[0][1]))
        found.append(at)
    return found


def _slots(serving: Sequence[tuple[WorkerInfo, WorkerTopic]], tasks: set[str | None], reserved: int) -> _Slots:
    """The slots of a topic: its reserved jobs may have any of them, first those that may not come back."""
    longest: dict[str, int] = {}
    for _, one in serving:
        for name, length in one.longest_ms.items():
            longest[name] = max(longest.get(name, 0), length)
    is_known = bool(longest) and all(task is None or task in longest for task in tasks)
    length_us = max(longest.values()) * MILLISECOND_US + SETTLE_US if is_known else FAR
    alone = [(worker, one) for worker, one in serving if not _is_shared(one)]
    stuck = [_stuck(worker, one, length_us) for worker, one in alone]
    again = sum(one.slots for _, one in alone)
    once = sum(one.own_slots for worker, one in serving if _is_shared(one) and (one.busy or worker.busy < worker.slots))
    taken_once = min(once, reserved)
    free = max(again - (reserved - taken_once), 0)
    return _Slots(
        free=free,
        later=max(again - free - sum(stuck), 0) if length_us != FAR else 0,
        once=once - taken_once,
        running=sum(one.busy for _, one in alone) - sum(stuck) if length_us != FAR else 0,
        length_us=length_us,
    )


def _is_shared(one: WorkerTopic) -> bool:
    """Whether other topics of the worker may take slots of it."""
    return one.own_slots < one.slots


def _stuck(worker: WorkerInfo, one: WorkerTopic, length_us: float) -> int:
    """How many jobs of a topic had taken longer at the report than any is said to take: all that may, of those not named in it."""
    held = [job for job in worker.jobs if job.topic == one.name]
    old = sum((worker.reported_at - job.taken).total_seconds() * 1e6 >= length_us for job in held)
    return one.busy if old == len(held) else old


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


def _reason(found: Sequence[_Part], topics: Sequence[WorkerTopic], stats: Stats, slots: _Slots) -> Reason:
    if all(part.paused for part in found if part.waiting):
        return "paused"
    if not topics:
        return "unknown_pace" if stats.watching or stats.last_popped is not None else "no_consumer"
    if any(part.unknown for part in found) and not any(part.candidates for part in found):
        return "unknown_tasks"
    if slots.at_once > 0 and any(part.has_limit for part in found):
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
    slots: _Slots,
) -> str:
    within = f"In the next {span_text(span.total_seconds())},"
    doomed = sum(part.doomed for part in found)
    doomed_jobs = "1 job is" if doomed == 1 else f"{doomed:,} jobs are"
    late = f" {doomed_jobs} already too late to run, and will be marked dead." if doomed else ""
    jobs = "1 job" if waiting == 1 else f"{waiting:,} jobs"
    if not waiting and not certain:
        many = "1 job is" if at_most == 1 else f"{at_most:,} jobs are"
        return f"{within} {f'at most {many} handed out' if at_most else 'nothing is due'}.{late}"
    shared = any(_is_shared(one) for one in topics)
    took = "" if slots.length_us == FAR else span_text((slots.length_us - SETTLE_US) / 1e6)
    if reason is None:
        if certain == at_most:
            return f"{within} {certain:,} of {jobs} {'is' if certain == 1 else 'are'} handed out.{late}"
        more = (
            f"{certain:,} if none takes longer than {took}, the longest of the last hour"
            if took
            else "how many depends on how long handlers take"
        )
        if shared:
            more += (
                ", and more if other topics leave slots free"
                if took
                else ", and on the other topics that share slots with this one"
            )
        return f"{within} {certain:,} of {jobs} {'is' if certain == 1 else 'are'} certain to be handed out, and at most {at_most:,}: {more}.{late}"
    unknown = ", ".join(dict.fromkeys(repr(task) for part in found for task in part.unknown[:3]))
    busy = f"none of {sum(one.slots for one in topics)} slots is certain to be free"
    busy += ", because other topics of the workers may take them" if shared else ""
    length = f"handlers took up to {took} in the last hour" if took else "how long handlers take is not known"
    why = {
        "paused": "the topic stays paused for longer",
        "no_consumer": "no worker and no client takes them",
        "unknown_tasks": f"not every live worker knows {unknown}",
        "limited": "the topic's limit holds them back, and for how long depends on handlers or on the rate",
        "unknown_pace": f"{busy}, and {length}" if topics else "clients take them, and how fast is not known",
    }[reason]
    return f"{within} {jobs} {'is' if waiting == 1 else 'are'} due, and none is certain to be handed out: {why}.{late}"
