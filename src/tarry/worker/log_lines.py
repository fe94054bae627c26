"""The worker's log lines: → taken, ✓ done, ↻ retried, ✗ dead or lost, ⧗ overran its timeout, ‖ its topic is paused.

At DEBUG one line a job; a retry is a WARNING, a dead job an ERROR; at INFO one line a topic in ten seconds (∑), when something
happened, and one for all when there are more than eight topics. ``record.tarry`` has the topic, the id and the like as fields, for logs in JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tarry.errors import StaleReceipt
from tarry.values.durations import LAST_MOMENT_US, SECOND, as_datetime, as_text
from tarry.values.printable import one_line
from tarry.verbs.jobs.job_values import BaseJob
from tarry.worker.targets import Target
from tarry.worker.verdicts import Verdict

logger = logging.getLogger("tarry.worker")
_MS = 1000.0
LOG_EVERY_S = 10.0
MOST_TOPICS, SHOWN = 8, 3
"""More topics than these have one line together, which names the first."""
Jobs = Iterable[BaseJob[Any]]


def fields_of(job: BaseJob[Any], **more: Any) -> dict[str, Any]:
    """The fields of a log record about a job."""
    return {"tarry": {"topic": job.topic, "id": job.id, "attempt": job.attempt, **more}}


def debug_enabled() -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def log_taken(jobs: Jobs) -> None:
    for job in jobs:
        late = job.lateness.total_seconds() * _MS
        logger.debug(
            "→ %s/%s attempt %d, %.1f ms late",
            job.topic,
            job.id,
            job.attempt,
            late,
            extra=fields_of(job, lateness_ms=late),
        )


def log_done(job: BaseJob[Any], seconds: float) -> None:
    ms = seconds * _MS
    logger.debug(
        "✓ %s/%s attempt %d, %.1f ms", job.topic, job.id, job.attempt, ms, extra=fields_of(job, duration_ms=ms)
    )


def _said_of(jobs: Sequence[BaseJob[Any]]) -> str:
    """The subject of a line about jobs of one topic."""
    first = jobs[0]
    if len(jobs) == 1:
        return f"{first.topic}/{first.id} attempt {first.attempt}"
    return f"{first.topic}: {named([job.id for job in jobs], 'jobs')}"


def fields_of_jobs(jobs: Sequence[BaseJob[Any]], **more: Any) -> dict[str, Any]:
    """The fields of a record about jobs: those of the first one, and of many how many they are."""
    return fields_of(jobs[0], **more, **({"jobs": len(jobs)} if len(jobs) > 1 else {}))


def log_failed(verdicts: Mapping[BaseJob[Any], Verdict], fault: BaseException, *, dead: bool) -> None:
    """Jobs for which the same type of exception had the same result; ``fault`` is that of the first one. A line for dead jobs has its
    exception in the record: error trackers and formatters take the traceback from there. At DEBUG each of many has a line, too."""
    jobs = [*verdicts]
    first, others = verdicts[jobs[0]], {verdict.failure for verdict in verdicts.values()}
    more = {"reason": first.reason, "error": first.error, "dead": dead}
    delays = sorted(verdict.delay_us or 0 for verdict in verdicts.values())
    again = as_text(delays[0]) + ("" if delays[0] == delays[-1] else f" to {as_text(delays[-1])}")
    if dead:
        level, word, then = logging.ERROR, "is dead" if len(jobs) == 1 else "are dead", ""
    else:
        level, word = (logging.WARNING, "failed") if first.counts else (logging.DEBUG, "put off")
        then = f"; again in {again}"
    text = first.note if first.note and not dead else first.failure
    if len(others) > 1:
        text += f" (and {len(others) - 1} other reasons)"
    logger.log(
        level, "%s %s %s: %s%s", "✗" if dead else "↻", _said_of(jobs), word, text, then,
        exc_info=fault if dead else None, extra=fields_of_jobs(jobs, **more),
    )  # fmt: skip
    if len(jobs) > 1 and debug_enabled():
        for job, verdict in verdicts.items():
            log_one = "✗ %s/%s attempt %d is dead: %s" if dead else "↻ %s/%s attempt %d: %s"
            logger.debug(log_one, job.topic, job.id, job.attempt, verdict.failure, extra=fields_of(job, dead=dead))


def log_paused(
    jobs: Sequence[BaseJob[Any]], reason: str, until_us: int, *, is_known: bool, are_lost: bool = False
) -> None:
    """``is_known``: the jobs were handed out before another one has paused the topic, as those of other slots are."""
    until = as_datetime(until_us).isoformat(timespec="seconds") if until_us < LAST_MOMENT_US - SECOND else "resumed"
    first, one = jobs[0], len(jobs) == 1
    who = f"{first.id} attempt {first.attempt}" if one else named([job.id for job in jobs], "jobs")
    lost, uncounted = ("it is lost", "it does not count") if one else ("they are lost", "they do not count")
    fate = lost if are_lost else uncounted
    logger.log(
        logging.DEBUG if is_known else logging.WARNING,
        "‖ %s is paused until %s: %s raised %s; %s", first.topic, until, who, reason, fate,
        extra=fields_of_jobs(jobs, reason=reason, paused_until=until),
    )  # fmt: skip


def log_key_paused(jobs: Sequence[BaseJob[Any]], key: str, reason: str, until_us: int) -> None:
    until = as_datetime(until_us).isoformat(timespec="seconds")
    who = f"{jobs[0].id} attempt {jobs[0].attempt}" if len(jobs) == 1 else named([job.id for job in jobs], "jobs")
    logger.warning(
        "‖ the key %s of %s is paused until %s: %s raised %s", one_line(key), jobs[0].topic, until, who, reason,
        extra=fields_of_jobs(jobs, reason=reason, paused_until=until),
    )  # fmt: skip


def log_stale(topic: str, fault: StaleReceipt) -> None:
    logger.warning("✗ %s: %s", topic, fault, extra={"tarry": {"topic": topic, "id": fault.id}})


def log_lost(jobs: Sequence[BaseJob[Any]]) -> None:
    is_lost = "is lost: somebody else may have it by now"
    if len(jobs) > 1:
        is_lost = "are lost: somebody else may have them by now"
    logger.warning("✗ %s %s", _said_of(jobs), is_lost, extra=fields_of_jobs(jobs))


def log_cancelled(jobs: Sequence[BaseJob[Any]], target: Target) -> None:
    """``target``: of the first one."""
    is_one = len(jobs) == 1
    if target.batching is not None:
        what = f"the rest of {'its' if is_one else 'their'} batch goes on, job.lost is true"
    elif target.is_async:
        what = "its handler is cancelled" if is_one else "their handlers are cancelled"
    elif target.process is not None:
        what = "its process is killed" if is_one else "their processes are killed"
    else:
        what = f"{'its thread' if is_one else 'their threads'} cannot be stopped, job.lost is true"
    logger.info(
        "■ %s %s cancelled: %s", _said_of(jobs), "was" if is_one else "were", what,
        extra=fields_of_jobs(jobs, cancelled=True, handler=target.name),
    )  # fmt: skip


def log_overrun(job: BaseJob[Any], name: str, seconds: float, jobs: int | None) -> None:
    """``jobs``: how many its batch has, if it has one."""
    fails, stops = "its job stays reserved until it returns, and fails then", 'run="process" stops it'
    if jobs is not None:
        fails, stops = (
            f"the {jobs} jobs of its batch stay reserved until it returns, and fail then",
            "an async def can be stopped",
        )
    logger.warning(
        "⧗ %s/%s attempt %d overran: %s has taken longer than its timeout of %g s. A plain function cannot be stopped; %s. %s.",
        job.topic, job.id, job.attempt, name, seconds, fails, stops,
        extra=fields_of(job, overrun=True, handler=name, timeout_ms=seconds * _MS),
    )  # fmt: skip


def log_raised_after_settling(jobs: Sequence[BaseJob[Any]], fault: BaseException) -> None:
    was = "was settled, and then its" if len(jobs) == 1 else "were settled, and then their"
    logger.error("✗ %s %s handler raised", _said_of(jobs), was, exc_info=fault, extra=fields_of_jobs(jobs))


def log_refused(job: BaseJob[Any], error: Exception) -> None:
    logger.error("✗ %s/%s attempt %d: %s", job.topic, job.id, job.attempt, error, extra=fields_of(job))


def log_topics(slots: Mapping[str, int], shared: int | None) -> None:
    """The topics that are listened to from now on, and their slots; ``shared`` are those that all topics of the worker share."""
    if len(slots) <= MOST_TOPICS:
        for topic, most in slots.items():
            logger.info("▶ %s, %d slots", topic, most)
        return
    together = f"{shared} slots together" if shared is not None else f"up to {max(slots.values())} slots each"
    fields = {"topics": list(slots), "slots": shared}
    logger.info("▶ %s, %s", named(list(slots), "topics"), together, extra={"tarry": fields})


def log_skipped(topic: str, name: str, middleware: Mapping[str, bool]) -> None:
    """Middleware that takes one job, around a handler with ``batch=``. A warning, if of one of it no annotation says that it takes one."""
    all_say_so = all(middleware.values())
    logger.log(
        logging.INFO if all_say_so else logging.WARNING,
        "%s %s: %s takes many jobs, and middleware that takes one is not called: %s.%s",
        "▶" if all_say_so else "✗", topic, name, ", ".join(middleware), "" if all_say_so else _SAY_IT,
        extra={"tarry": {"topic": topic, "handler": name, "skipped": [*middleware]}},
    )  # fmt: skip


_SAY_IT = (
    " Annotate its first parameter: list[tarry.AsyncJob], in a plain function list[tarry.Job], to be called with all jobs of the call; "
    "tarry.AsyncJob or tarry.Job if that is meant."
)


def named(names: Sequence[str], what: str) -> str:
    """So many, and the first of them."""
    return f"{len(names)} {what} ({', '.join(names[:SHOWN])}{', …' if len(names) > SHOWN else ''})"


def log_tallies(tallies: Iterable[tuple[Tally, int]]) -> None:
    """Logs what happened in each topic, and how many jobs run; of many topics the sum."""
    happened = [(tally, running) for tally, running in tallies if tally.happened]
    if len(happened) > MOST_TOPICS:
        total = Tally(named([tally.topic for tally, _ in happened], "topics"))
        for tally, _ in happened:
            total.move_from(tally)
        happened = [(total, sum(running for _, running in happened))]
    for tally, running in happened:
        tally.log(running)


class Tally:
    """The counters of one topic since its last log line."""

    __slots__ = ("dead", "done", "late_us", "lost", "overrun", "retried", "taken", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._reset()

    def _reset(self) -> None:
        self.taken = self.done = self.retried = self.dead = self.lost = self.overrun = self.late_us = 0

    def add_taken(self, jobs: Sequence[BaseJob[Any]]) -> None:
        self.taken += len(jobs)
        first = jobs[0]  # the one with the earliest due time
        late = first.popped_us - first.due_us
        if late > self.late_us:
            self.late_us = late

    @property
    def happened(self) -> bool:
        return bool(self.taken or self.done or self.retried or self.dead or self.overrun)

    def move_from(self, other: Tally) -> None:
        """Adds the counters of another topic, and resets them there."""
        self.taken, self.done, self.retried = (
            self.taken + other.taken,
            self.done + other.done,
            self.retried + other.retried,
        )
        self.dead, self.lost, self.overrun = (
            self.dead + other.dead,
            self.lost + other.lost,
            self.overrun + other.overrun,
        )
        self.late_us = max(self.late_us, other.late_us)
        other._reset()

    def log(self, running: int) -> None:
        """Logs the counters and resets them."""
        fields = {
            "topic": self.topic, "taken": self.taken, "done": self.done, "retried": self.retried, "dead": self.dead,
            "lost": self.lost, "overrun": self.overrun, "running": running,
            "lateness_max_ms": self.late_us / 1000,
        }  # fmt: skip
        logger.info(
            "∑ %s: %d taken, %d done, %d retried, %d dead%s, %d running, at most %.1f ms late",
            self.topic, self.taken, self.done, self.retried, self.dead,
            f", {self.overrun} overran" if self.overrun else "", running, self.late_us / 1000,
            extra={"tarry": fields},
        )  # fmt: skip
        self._reset()
