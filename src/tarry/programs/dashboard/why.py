"""Why a job is where it is, in sentences, the most telling first. Pure: what is known goes in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tarry.errors import BodyError
from tarry.programs.dashboard import saying
from tarry.verbs.jobs.models import JobInfo
from tarry.verbs.jobs.stats import Defaults, Stats
from tarry.verbs.workers import WorkerInfo


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at the moment of the look. ``ahead``: jobs due before it; ``pace``: handed out a second, lately."""

    job: JobInfo[Any]
    stats: Stats
    defaults: Defaults
    workers: Sequence[WorkerInfo]
    ran_out: bool
    ahead: int
    pace: float | None

    @property
    def now(self) -> datetime:
        return self.stats.now

    @property
    def limit(self) -> int | None:
        """How many attempts it has, as far as it can be read."""
        own = None
        with suppress(BodyError):
            own = self.job.max_attempts
        return own or self.defaults.max_attempts

    @property
    def of(self) -> str:
        return f" of {self.limit}" if self.limit else ""


def why(known: Known) -> list[str]:
    """The sentences."""
    return list({"delayed": _delayed, "ready": _ready, "reserved": _reserved, "dead": _dead}[known.job.state](known))


def slots_of(workers: Sequence[WorkerInfo], topic: str) -> tuple[int, int, int]:
    """Workers that work on a topic, their slots, and how many are busy (a worker's slots serve all of its topics)."""
    serving = [worker for worker in workers if not worker.stopping and any(one.name == topic for one in worker.topics)]
    parts = [one for worker in serving for one in worker.topics if one.name == topic]
    return len(serving), sum(one.slots for one in parts), sum(one.busy for one in parts)


def _delayed(known: Known) -> Iterator[str]:
    job = known.job
    assert job.due is not None
    yield f"It is due in {saying.span(job.due - known.now)}."
    if job.attempts:
        yield f"It was tried {_times(job.attempts)} and waits for attempt {job.attempts + 1}{known.of}: {job.reason or 'it was released'}."
    if known.stats.paused_until is not None:
        yield f"The topic is paused {_until(known)}; while it is, nothing is handed out."


def _ready(known: Known) -> Iterator[str]:
    job, stats = known.job, known.stats
    since = job.due or known.now
    if known.ran_out:
        yield (
            f"Its worker let the time to run pass {saying.span(known.now - since)} ago ({job.holder or 'unknown'}, attempt "
            f"{job.attempts}{known.of}): it is handed out again at the next pop."
        )
    else:
        yield f"It has been ready for {saying.span(known.now - since)}."
    if stats.paused_until is not None:
        yield f"The topic is paused {_until(known)}: nothing is handed out."
        return
    if stats.limited is not None:
        yield _held_back(known)
    serving, slots, busy = slots_of(known.workers, job.topic)
    if not serving and not stats.watching and not known.pace:
        yield "Nobody works on this topic: no live worker has a handler for it, and nobody waits for its jobs."
        return
    if slots and busy >= slots:
        yield f"All {slots} slots of {_workers(serving)} are busy."
    elif slots:
        yield f"{_workers(serving).capitalize()} with {slots - busy} free of {slots} slots may take it at any moment."
    if known.ahead:
        turn = (
            f" At the pace of late, {saying.rate(known.pace)}, its turn comes in about {saying.span(known.ahead / known.pace)}."
            if known.pace
            else ""
        )
        yield f"{known.ahead:,} {'job is' if known.ahead == 1 else 'jobs are'} due before it.{turn}"


def _held_back(known: Known) -> str:
    """By a limit of the topic."""
    limited, defaults = known.stats.limited, known.defaults
    assert limited is not None
    until = f", which lets the next go in {saying.span(limited.until - known.now)}" if limited.until else ""
    if limited.why == "concurrency":
        return (
            f"The topic is capped at {defaults.concurrency} at a time, and {known.stats.reserved} are reserved{until}."
        )
    return f"The topic is capped at {defaults.rate}{until}."


def _reserved(known: Known) -> Iterator[str]:
    job = known.job
    assert job.reserved_until is not None
    worker = next((one for one in known.workers if one.name == job.holder), None)
    held = next((one for one in worker.jobs if (one.topic, one.id) == (job.topic, job.id)), None) if worker else None
    who = f"Process {worker.pid} on {worker.host}" if worker else job.holder or "Somebody"
    spent = f", for {saying.span(known.now - held.taken)} now" if held else ""
    yield f"{who} works on it{spent}: attempt {job.attempts}{known.of}."
    left = saying.span(job.reserved_until - known.now)
    yield f"Unless it is settled or touched within {left}, it is handed out again."
    if job.attempts > 1:
        yield f"It was handed out before: {job.reason or 'its worker died, or let the time to run pass'}."
    if known.workers and worker is None:
        yield f"{job.holder or 'Its holder'} is none of the live workers: a client that pops by itself, or a worker that died."


def _dead(known: Known) -> Iterator[str]:
    job = known.job
    yield f"It was set aside after {_times(job.attempts)}: {job.reason or 'no reason was given'}."
    if last := last_line(job):
        yield f"Its last error: {last}"
    yield "It stays until it is kicked, which makes it ready with all its attempts before it, or deleted."
    if known.defaults.keep is not None and job.died is not None:
        yield f"After {saying.span(job.died + known.defaults.keep - known.now)} it is swept away."


def last_line(job: JobInfo[Any]) -> str:
    """The line of a traceback that says what it was."""
    said = (job.error or "").strip().splitlines()
    return said[-1].strip() if said else ""


def _times(n: int) -> str:
    return {0: "no attempt", 1: "1 attempt"}.get(n, f"{n} attempts")


def _workers(n: int) -> str:
    return "1 worker" if n == 1 else f"{n} workers"


def _until(known: Known) -> str:
    until = known.stats.paused_until
    assert until is not None
    return "until somebody resumes it" if until.year > 9000 else f"for {saying.span(until - known.now)}"
