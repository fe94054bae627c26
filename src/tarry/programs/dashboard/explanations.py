"""Explains why a job is in its state, in sentences, the most important first. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from tarry import JobInfo, KeyStats, Stats, TopicSettings
from tarry.errors import BodyError
from tarry.internal import parse_envelope
from tarry.programs.dashboard import filters
from tarry.programs.serving.conditions import is_paused, key_text
from tarry.types import WorkerInfo


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts about a job. ``ahead``: how many jobs are due before it; ``pace``: jobs popped a second, lately."""

    job: JobInfo[Any]
    stats: Stats
    settings: TopicSettings
    workers: Sequence[WorkerInfo]
    timed_out: bool
    ahead: int
    pace: float | None
    key: KeyStats | None = None
    """Of its key, if it waits and has one."""

    @property
    def now(self) -> datetime:
        return self.stats.now

    @property
    def priority(self) -> int:
        """0 also if its record cannot be read."""
        try:
            return self.job.priority
        except BodyError:
            return 0

    @property
    def key_name(self) -> str | None:
        """``None`` also if its record cannot be read."""
        try:
            return self.job.key
        except BodyError:
            return None

    @property
    def limit(self) -> int | None:
        """How many attempts it has: its own, its handler's, as a live worker reports it, or those that it was last handed out with."""
        return self.settings.attempts_of(self.job, UNSET if self.job.state == "dead" else self._handlers_limit())

    def _handlers_limit(self) -> int | UnsetType | None:
        task = None
        with suppress(BodyError):
            task = parse_envelope(self.job).task
        holders = [one for one in self.workers if self.job.state == "reserved" and one.name == self.job.holder]
        topics = [one for worker in holders or self.workers for one in worker.topics if one.name == self.job.topic]
        limits = [limit for one in topics if not isinstance(limit := one.max_attempts_of(task), UnsetType)]
        return min(limits, key=lambda limit: math.inf if limit is None else limit, default=UNSET)

    @property
    def of(self) -> str:
        return f" of {self.limit}" if self.limit else ""


def explain(facts: JobFacts) -> list[str]:
    """The sentences for a job."""
    by_state = {"delayed": _delayed, "ready": _ready, "reserved": _reserved, "dead": _dead, "finished": _finished}
    return list(by_state[facts.job.state](facts))


def slots_of(workers: Sequence[WorkerInfo], topic: str) -> tuple[int, int, int]:
    """How many workers consume a topic, their slots, and how many of these are busy."""
    worker_count = [
        worker for worker in workers if worker.takes_jobs and any(one.name == topic for one in worker.topics)
    ]
    parts = [one for worker in worker_count for one in worker.topics if one.name == topic]
    return len(worker_count), sum(one.slots for one in parts), sum(one.busy for one in parts)


def _delayed(facts: JobFacts) -> Iterator[str]:
    job = facts.job
    assert job.due is not None
    yield f"It is due in {filters.span(job.due - facts.now)}."
    if job.attempts:
        yield f"Attempt {job.attempts} ended: {job.reason or 'it was released'}. It waits for attempt {job.attempts + 1}{facts.of}."
    elif job.reason:
        yield f"It was put back, and that attempt does not count: {job.reason}."
    elif job.note:
        yield "It was put back, and that attempt does not count."
    if facts.stats.paused_until is not None:
        yield f"The topic is paused {_until(facts)}: nothing is handed out."


def _ready(facts: JobFacts) -> Iterator[str]:
    job, stats = facts.job, facts.stats
    since = job.due or facts.now
    if facts.timed_out:
        yield (
            f"Its time to run ended {filters.span(facts.now - since)} ago ({job.holder or 'unknown'}, attempt "
            f"{job.attempts}{facts.of}): the next pop hands it out again."
        )
    else:
        yield f"It has been ready for {filters.span(facts.now - since)}."
    if facts.priority:
        yield f"Its priority is {facts.priority}: it is handed out before due jobs of a lower priority."
    if stats.paused_until is not None:
        yield f"The topic is paused {_until(facts)}: nothing is handed out."
        return
    if facts.key is not None and (held_back := _held_back(facts.key)):
        yield held_back
        return
    if stats.limited is not None and (stats.limited.reason != "key" or facts.key is None):
        yield _limited(facts)
    worker_count, slots, busy = slots_of(facts.workers, job.topic)
    if not worker_count and not stats.watching and not facts.pace:
        yield "This topic has no consumer: no live worker has a handler for it, and no client waits for its jobs."
        return
    if slots and busy >= slots:
        yield f"All {slots} slots of {_workers(worker_count)} are busy."
    elif slots:
        have = "has" if worker_count == 1 else "have"
        yield f"{_workers(worker_count)} {have} {slots - busy} of {slots} slots free: it can be handed out at any moment."
    if facts.ahead and not facts.priority and facts.key is None:
        turn = (
            f" At the recent rate of {filters.rate(facts.pace)} its turn comes in about {filters.span(facts.ahead / facts.pace)}."
            if facts.pace
            else ""
        )
        yield f"{facts.ahead:,} {'job is' if facts.ahead == 1 else 'jobs are'} due before it.{turn}"


def _held_back(key: KeyStats) -> str:
    """Why no job of its key can be handed out; empty: one can."""
    name, why, until = key.key, None if key.limited is None else key.limited.reason, None
    if key.limited is not None and key.limited.until is not None:
        until = filters.span(key.limited.until - key.now)
    if is_paused(key):
        return f"{name} is {key_text(key)}: none of its jobs is handed out."
    if why == "concurrency":
        most = key.concurrency or key.reserved
        return f"{key.reserved} of {most} of {name} are running: it waits until one of them ends."
    if why == "rate":
        return f"{name} has spent its rate of {key.rate}: its next job can be handed out in {until or '0 s'}."
    if why == "retry":
        when = f" in {until}" if until else ""
        return f"A failed job of {name} is tried again{when}, and holds the key: its other jobs wait for that."
    return ""


def _limited(facts: JobFacts) -> str:
    """The sentence about a limit of the topic."""
    limited, settings = facts.stats.limited, facts.settings
    assert limited is not None
    until = f"; the next job can be handed out in {filters.span(limited.until - facts.now)}" if limited.until else ""
    if limited.reason == "concurrency":
        return (
            f"The topic runs at most {filters.jobs(settings.concurrency or 0)} at a time, and {facts.stats.reserved:,} "
            f"{'is' if facts.stats.reserved == 1 else 'are'} reserved{until}."
        )
    if limited.reason == "key":
        most = f"at most {settings.key_concurrency} of a key are reserved at a time" if settings.key_concurrency else ""
        rate = f"a key has a rate of {settings.key_rate}" if settings.key_rate else ""
        return f"Its key is held back: {' and '.join(filter(None, (most, rate))) or 'it is paused'}{until}."
    return f"The topic has a rate limit of {settings.rate}{until}."


def _reserved(facts: JobFacts) -> Iterator[str]:
    job = facts.job
    assert job.reserved_until is not None
    worker = next((one for one in facts.workers if one.name == job.holder), None)
    held = next((one for one in worker.jobs if (one.topic, one.id) == (job.topic, job.id)), None) if worker else None
    who = f"Process {worker.pid} on {worker.host}" if worker else job.holder or "Somebody"
    works = f"has worked on it for {filters.span(facts.now - held.taken)}" if held else "works on it"
    yield f"{who} {works}: attempt {job.attempts}{facts.of}."
    if held and held.overrun:
        yield "It has taken longer than its timeout. A plain function cannot be stopped: the job stays reserved until it returns."
    left = filters.span(job.reserved_until - facts.now)
    yield f"Its time to run ends in {left}: if it is not done or extended by then, it is handed out again."
    if job.attempts > 1:
        yield f"Attempt {job.attempts - 1} ended: {job.reason or 'its worker died, or its time to run ended'}."
    if facts.workers and worker is None:
        yield f"{job.holder or 'Its holder'} is not one of the live workers: it is a client that pops jobs itself, or a worker that died."


def _dead(facts: JobFacts) -> Iterator[str]:
    job = facts.job
    if is_exhausted(job):
        failed = (
            "Its only attempt failed" if job.attempts == 1 else f"All {job.attempts} attempts failed, the last with"
        )
        yield f"{failed}: {failure(job)}." if job.attempts == 1 else f"{failed} {failure(job)}."
    else:
        yield f"It was set aside after {_times(job.attempts)}: {failure(job)}."
    if (last := last_line(job)) and last != failure(job):
        yield f"The last line of its error: {last}"
    yield "It stays dead until it is kicked or deleted. A kick makes it ready again, with all its attempts."
    if facts.settings.keep_dead is not None and job.died is not None:
        yield f"It will be deleted in {filters.span(job.died + facts.settings.keep_dead - facts.now)}."


def _finished(facts: JobFacts) -> Iterator[str]:
    job = facts.job
    assert job.kept_until is not None
    yield f"It was finished by {job.holder or 'an unknown holder'} after {_times(job.attempts)}."
    if job.result_not_kept is not None:
        yield f"Its result was not kept: {job.result_not_kept}."
    yield f"It is kept as history for another {filters.span(job.kept_until - facts.now)}."


def failure(job: JobInfo[Any]) -> str:
    """The last failure in one line."""
    return job.failure or "no reason was given"


def is_exhausted(job: JobInfo[Any]) -> bool:
    """Whether it died because its last attempt failed, and is known to have failed with what."""
    return job.failure != job.reason


def last_line(job: JobInfo[Any]) -> str:
    """The last line of the traceback: the exception."""
    found = (job.error or "").strip().splitlines()
    return found[-1].strip() if found else ""


def _times(n: int) -> str:
    return {0: "no attempt", 1: "1 attempt"}.get(n, f"{n} attempts")


def _workers(n: int) -> str:
    return "1 worker" if n == 1 else f"{n} workers"


def _until(facts: JobFacts) -> str:
    until = facts.stats.paused_until
    assert until is not None
    return "until somebody resumes it" if until.year > 9000 else f"for {filters.span(until - facts.now)}"
