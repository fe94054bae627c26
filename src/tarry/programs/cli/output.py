"""The library's answers as JSON data, in the models of the service (tarry.wire) where it has the same.

Durations are ``*_ms``, moments RFC 3339, bytes base64. The models are imported when they are needed: most calls are short.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tarry import Added, Histogram, JobInfo, KeyStats, MinuteCounts, Schedule, Stats, TopicSettings
    from tarry.programs.serving.conditions import Condition
    from tarry.types import BaseJob, WorkerInfo
    from tarry.wire.schemas import Schema

T = TypeVar("T")
_MODULE = re.compile(r"^(?:[\w<>]+\.)+(?=[A-Z]\w*(?::|$))")
"""The module of an exception at the start of a traceback's last line: ``tarry.errors.`` of ``tarry.errors.BodyError: …``."""


def rfc3339(at: datetime | None) -> str | None:
    """``2026-02-03T04:05:06.000007Z``, as the service writes it."""
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z") if at else None


def ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span / timedelta(milliseconds=1))


def exact_ms(span: timedelta) -> float:
    """Milliseconds with fractions, for latenesses, which are mostly less than 2 ms."""
    from tarry.wire.types import ms

    return ms(span)


def span_text(span: timedelta) -> str:
    """A duration as one types it: ``0.21ms``, ``1.5s``, ``3m 20s``, ``1d 2h``."""
    if span < timedelta():
        return "-" + span_text(-span)
    if span < timedelta(seconds=1):
        return f"{span / timedelta(milliseconds=1):.3g}ms" if span else "0s"
    if span < timedelta(minutes=1):
        return f"{span.total_seconds():.3g}s"
    hours, minutes, seconds = span.seconds // 3600, span.seconds // 60 % 60, span.seconds % 60
    parts = ((span.days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return " ".join([f"{n}{unit}" for n, unit in parts if n][:2])


def count_text(n: int, what: str) -> str:
    """``1 job``, ``2 jobs``, ``1,000,000 jobs``."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def more_note(shown: int, total: int, what: str) -> str:
    """``100 of 1,662 jobs; --limit 1662 shows all``."""
    plural = what.removesuffix("y") + "ies" if what.endswith("y") else what + "s"
    return f"{shown:,} of {total:,} {plural}; --limit {total} shows all"


def as_data(schema: Schema[T], value: T) -> dict[str, Any]:
    """A value of the library as JSON data."""
    import msgspec

    found: dict[str, Any] = json.loads(msgspec.json.encode(schema.dump(value)))
    return found


def added_data(job: Added) -> dict[str, Any]:
    from tarry.wire.answers import ADDED

    return as_data(ADDED, job)


def popped_data(job: BaseJob[Any]) -> dict[str, Any]:
    from tarry.wire.answers import POPPED

    return as_data(POPPED, job)


def job_data(job: JobInfo[Any]) -> dict[str, Any]:
    """A job; fields that do not apply to its state are left out."""
    from tarry.wire.answers import JOB

    return as_data(JOB, job)


def key_text(job: JobInfo[Any] | BaseJob[Any]) -> str:
    """``  key customer-7``; nothing for a job without a key, or whose record cannot be read."""
    from tarry.errors import BodyError

    try:
        return f"  key {job.key}" if job.key is not None else ""
    except BodyError:
        return ""


def state_moment(job: JobInfo[Any]) -> datetime | None:
    """The moment that a line about a job shows: when it is due, its TTR ends, it died, or it was finished."""
    return job.due or job.reserved_until or job.died or job.finished


def last_error_line(job: JobInfo[Any]) -> str:
    """The last line of a job's error without the exception's module, ``ConnectionError: refused``; nothing if the job's reason contains it."""
    lines = [line.strip() for line in (job.error or "").splitlines() if line.strip()]
    last = _MODULE.sub("", lines[-1]) if lines else ""
    return "" if last in (job.reason or "") else last


def stats_data(stats: Stats) -> dict[str, Any]:
    """A topic's stats; of its lateness the percentiles."""
    from tarry.wire.topic_answers import STATS

    found = as_data(STATS, stats)
    lateness = found.pop("lateness")
    return {**found, **{f"lateness_{name}": lateness[name] for name in ("p50_ms", "p99_ms", "max_ms")}}


def key_data(found: KeyStats) -> dict[str, Any]:
    """The numbers of one key."""
    from tarry.wire.topic_answers import KEY_STATS

    return as_data(KEY_STATS, found)


def settings_data(settings: TopicSettings) -> dict[str, Any]:
    """A topic's settings."""
    from tarry.wire.topic_answers import SETTINGS

    return as_data(SETTINGS, settings)


def schedule_data(schedule: Schedule) -> dict[str, Any]:
    """A schedule; fields that do not apply are left out."""
    from tarry.wire.endpoints.schedule_endpoints import SCHEDULE

    return as_data(SCHEDULE, schedule)


def worker_data(info: WorkerInfo) -> dict[str, Any]:
    """A live worker."""
    from tarry.wire.topic_answers import WORKER

    found = as_data(WORKER, info)
    topics, jobs = found.pop("topics"), found.pop("jobs")
    del found["now"]
    return {**found, "free": info.free, "topics": topics, "jobs": jobs}


def topic_workers(workers: Sequence[WorkerInfo], topic: str) -> dict[str, int]:
    """How many workers consume a topic, and how busy they are with it."""
    parts = [part for info in workers for part in info.topics if part.name == topic]
    return {
        "workers": len(parts),
        "busy": sum(part.busy for part in parts),
        "slots": sum(part.slots for part in parts),
    }


def condition_data(condition: Condition) -> dict[str, Any]:
    """A condition of a topic."""
    since = None if condition.since is None else rfc3339(condition.since)
    return {
        "kind": condition.kind,
        "level": condition.level,
        "sentence": condition.sentence,
        "count": condition.count,
        "since": since,
    }


def histogram_data(topic: str, found: Histogram) -> dict[str, Any]:
    from tarry.wire.topic_answers import HISTOGRAM

    return {"topic": topic, **as_data(HISTOGRAM, found)}


def throughput_data(topic: str, found: tuple[MinuteCounts, ...]) -> dict[str, Any]:
    from tarry.wire.topic_answers import THROUGHPUT

    return {"topic": topic, **as_data(THROUGHPUT, found)}


def timeline_data(past: Histogram, stretches: Sequence[Histogram]) -> dict[str, Any]:
    """How many jobs are due in each interval of time."""
    return {
        "older": past.before,
        "stretches": [
            {"start": rfc3339(part.start), "width_ms": ms(part.width), "counts": part.counts}
            for part in (past, *stretches)
        ],
        "later": stretches[-1].after,
    }


def element_data(body: Any) -> dict[str, Any]:
    """An element of a queue or map as JSON data: bytes as ``value_base64``, other values as ``value``."""
    import msgspec

    if isinstance(body, (bytes, bytearray)):
        return {"value_base64": b64encode(body).decode()}
    try:
        msgspec.json.encode(body)
    except TypeError:
        return {"value": repr(body)}
    return {"value": body}
