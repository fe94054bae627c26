"""The forecast of a topic: how many jobs are handed out in the next minutes, for certain and at most; or why nothing is certain.

    what is due soon, schedules, live workers  ──▶  forecast_topic  ──▶  Forecast(waiting, certain, at_most, reason, sentence)

``certain``: so many hand-outs at least, as long as the workers live that are known now, and no job takes longer than the longest that
they report of the last hour; whatever is added meanwhile. ``at_most``: so many of the jobs that wait, and of the schedules'
occurrences, if each slot were free at once. Where nothing is certain, the first of five reasons that is true says why. A task that a
worker does not know does not run there: its jobs are not certain.

Why it holds: until the last free slot is taken, jobs come in the pop order, which is played in advance (pop_order.py). So if the slots and
the concurrency limit suffice for all that come, both numbers are exact; else one job for each is certain. Where the longest time L
that a job takes is known, more are: at any moment either all jobs that may run have been handed out, or all slots are busy, and each of
these was taken within L. So the hand-outs N(t) are at least min(may run(t), N(t − L) + slots), as if each job took L. That counts only a
job that cannot become too late in this time, and an occurrence at whose moment a consumer waits.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any, Literal, get_args

from tarry.programs.serving.conditions import span_text
from tarry.programs.serving.pop_order import FAR, RateLeft, WaitingJob, hand_outs

if TYPE_CHECKING:
    from tarry import Stats
    from tarry.internal import DueSoon
    from tarry.types import WorkerInfo, WorkerTopic

Reason = Literal["paused", "no_consumer", "unknown_tasks", "limited", "unknown_pace"]
REASONS: tuple[Reason, ...] = get_args(Reason)
MOST_READ = 500
"""So many jobs of a partition are looked at; the others are not certain."""
MILLISECOND_US = 1000
SETTLE_US = 100 * MILLISECOND_US
"""Between the end of a handler and the next hand-out: the job is finished, and the next one popped. A job of an unknown task is put
back within this time, too."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its limits, the jobs that are due soon and were read, with the schedules' occurrences, and how many ``more`` of these
    there may be."""

    due: DueSoon[Any]
    jobs: Sequence[WaitingJob]
    more: int = 0


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
class _Part:
    """The facts of a partition. ``doomed`` jobs are too late already, and ``unread`` ones were not looked at. ``sure`` are known to
    every worker; ``played`` of them come while slots are free, and the concurrency limit leaves ``free`` places. No job that is not sure may
    run if ``is_whole``."""

    due: DueSoon[Any]
    waiting: int
    doomed: int
    unread: int
    at_most: int
    sure: list[WaitingJob]
    played: int
    free: int
    is_whole: bool
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
    span: timedelta, stats: Stats, partitions: Sequence[Partition], workers: Sequence[WorkerInfo]
) -> Forecast:
    """The forecast from what is due soon in each partition."""
    serving = [
        (worker, one) for worker in workers if worker.takes_jobs for one in worker.topics if one.name == stats.topic
    ]
    topics = [one for _, one in serving]
    span_us = round(span.total_seconds() * 1e6)
    handlers = {name for one in topics for name in one.handlers}
    tasks = {job.task for part in partitions for job in part.jobs}
    slots = _slots(serving, tasks & {None, *handlers}, sum(part.due.reserved for part in partitions))
    known = {task for task in tasks if all(_runs(one, task) for one in topics)}
    possible = {task for task in tasks if not topics or any(_runs(one, task) for one in topics)}
    found = [_read_part(part, known, possible, span_us, slots.at_once + 1) for part in partitions]
    played, at_most = sum(one.played for one in found), sum(one.at_most for one in found)
    certain = min(slots.at_once, sum(min(one.played, one.free) for one in found)) if topics else 0
    if topics and certain == played and all(one.is_whole for one in found):
        at_most = certain
    elif topics and slots.length_us != FAR and (len(found) == 1 or not any(one.has_limit for one in found)):
        certain = max(certain, _count_again(found, slots, span_us))
    waiting = sum(one.waiting for one in found)
    reason = None if certain or not waiting else _reason(found, topics, stats, slots)
    sentence = _sentence(span, waiting, certain, at_most, reason, found, topics, slots)
    return Forecast(span, waiting, certain, at_most, reason, sentence)


def _read_part(
    part: Partition, known: Container[str | None], possible: Container[str | None], span_us: int, most: int
) -> _Part:
    due, rate = part.due, RateLeft(part.due)
    opens, ends = max(due.now_us, due.paused_us), due.now_us + span_us
    alive = [job for job in part.jobs if max(job.due_us, opens) <= job.latest(due)]
    sure = [job for job in alive if job.task in known]
    may_run = sorted(max(job.due_us, opens) for job in alive if job.task in possible)
    unread = max(due.within - sum(not job.from_schedule for job in part.jobs), 0) + part.more
    others = unread + due.expired if opens <= ends else 0
    at_most = sum(at <= ends for at in _handed_out(due, may_run)) + others
    is_whole = len(sure) == len(may_run) and not others
    if 0 < rate.interval_us < SETTLE_US and (len(sure) < len(alive) or others):
        sure, is_whole = [], False  # jobs of unknown tasks spend of the rate until they are put back
    return _Part(
        due=due,
        waiting=len(alive) + unread,
        doomed=len(part.jobs) - len(alive),
        unread=unread,
        at_most=min(at_most, rate.allowed(opens, ends)) if rate.interval_us else at_most,
        sure=sure,
        played=hand_outs(due, sure, ends, most),
        free=max(due.concurrency - due.reserved, 0) if due.concurrency else len(sure),
        is_whole=is_whole,
        paused=due.paused_us > ends,
        unknown=tuple(dict.fromkeys(job.task for job in alive if job.task is not None and job.task not in known)),
    )


def _count_again(parts: Sequence[_Part], slots: _Slots, span_us: int) -> int:
    """How many jobs are handed out before the end if each takes as long as one may, and its slot is taken again then."""
    due = parts[0].due
    now, length, ends = due.now_us, slots.length_us, due.now_us + span_us
    places = [
        _Places([*[(now, FAR)] * slots.once, *[(now, length)] * slots.free, *[(now + length, length)] * slots.later])
    ]
    if due.concurrency:  # of the places that are taken, those of running jobs of workers come back
        free = parts[0].free
        later = min(due.concurrency - free, slots.running)
        places.append(_Places([*[(now, length)] * free, *[(now + length, length)] * later]))
    jobs = sorted(
        (max(job.due_us, now, due.paused_us), job.latest(part.due), job.from_schedule)
        for part in parts
        for job in part.sure
        if not (job.from_schedule and part.has_limit)
    )
    moments = _handed_out(due, [opens for opens, *_ in jobs], places)
    wait = _longest_wait([opens for opens, *_ in jobs], moments)
    safe = [
        opens
        for (opens, latest, from_schedule), at in zip(jobs, moments, strict=True)
        if (at == opens if from_schedule else latest == FAR or opens + wait < latest)
    ]
    return sum(at <= ends for at in _handed_out(due, safe, places))


def _longest_wait(opens: Sequence[int], moments: Sequence[float]) -> float:
    """The longest time in which some job always waits: none waits for longer, in whatever order they are handed out."""
    longest = begins = until = 0.0
    for since, at in zip(opens, moments, strict=True):
        if since > until:
            begins = since
        until = max(until, at)
        longest = max(longest, until - begins)
    return longest


def _handed_out(part: DueSoon[Any], moments: Sequence[int], places: Sequence[_Places] = ()) -> list[float]:
    """When jobs are handed out that may be from these moments on, in order, if only the rate and the places hold them back."""
    rate, heaps = RateLeft(part), [list(one.free_at) for one in places]
    found: list[float] = []
    at = float(part.now_us)
    for moment in moments:
        at = max(at, moment, *(heap[0][0] if heap else FAR for heap in heaps))
        if at == FAR:
            return [*found, *[FAR] * (len(moments) - len(found))]
        at = rate.next_at(at)
        rate.take(at)
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
    is_known = is_known and all(one.longest_ms for _, one in serving if one.takes_any_body)
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


def _runs(one: WorkerTopic, task: str | None) -> bool:
    """Whether a worker does not put back a job of the task; a body that names none fails there."""
    return one.takes_any_body or task is None or task in one.handlers


def _reason(found: Sequence[_Part], topics: Sequence[WorkerTopic], stats: Stats, slots: _Slots) -> Reason:
    if all(part.paused for part in found if part.waiting):
        return "paused"
    if not topics:
        return "unknown_pace" if stats.watching or stats.last_popped is not None else "no_consumer"
    if any(part.unknown or part.unread for part in found) and not any(part.sure for part in found):
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
    knows = f"{'not every' if at_most else 'no'} live worker knows {unknown}"
    busy = f"none of {sum(one.slots for one in topics)} slots is certain to be free"
    busy += ", because other topics of the workers may take them" if shared else ""
    length = f"handlers took up to {took} in the last hour" if took else "how long handlers take is not known"
    why = {
        "paused": "the topic stays paused for longer",
        "no_consumer": "no worker and no client takes them",
        "unknown_tasks": knows if unknown else "only the first of them were looked at, and those cannot run",
        "limited": (
            "the topic's limit holds them back now, and it is not certain when it lets one go"
            if at_most
            else "the topic's limit lets none go by then"
        ),
        "unknown_pace": f"{busy}, and {length}" if topics else "clients take them, and how fast is not known",
    }[reason]
    none = "none is certain to be handed out" if at_most else "none is handed out"
    return f"{within} {jobs} {'is' if waiting == 1 else 'are'} due, and {none}: {why}.{late}"
