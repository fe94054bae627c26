"""What the library answers, as JSON data: durations are ``*_ms`` integers (lateness to the microsecond), moments RFC 3339,
bytes base64."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from tarry.errors import BodyError
from tarry.words.durations import as_text

if TYPE_CHECKING:
    from tarry.clients.scheduling import Schedule
    from tarry.verbs.jobs.pictures import Defaults, Histogram, Stats
    from tarry.verbs.jobs.shapes import Added, HandedOut, JobInfo, Stored
    from tarry.verbs.workers import WorkerInfo


def rfc3339(at: datetime | None) -> str | None:
    """``2026-02-03T04:05:06.000007Z``"""
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z") if at else None


def ms(span: timedelta | None) -> int | None:
    return None if span is None else round(span / timedelta(milliseconds=1))


def exact_ms(span: timedelta) -> float:
    """A lateness is mostly less than a millisecond or two."""
    return round(span / timedelta(milliseconds=1), 3)


def late(span: timedelta) -> str:
    """A lateness for people: ``0.21ms``, ``28.2s``, ``1h 2m``."""
    return as_text(span // timedelta(microseconds=1))


def added(job: Added) -> dict[str, Any]:
    return {"id": job.id, "created": job.created, "state": job.state, "due": rfc3339(job.due)}


def content(job: Stored[Any]) -> dict[str, Any]:
    """``body`` as JSON data; bytes, and what is not JSON after all, as ``body_base64``."""
    try:
        body = job.body
    except BodyError:
        body = job.raw
    shown = {"body_base64": b64encode(body).decode()} if isinstance(body, bytes) else {"body": body}
    return {"id": job.id, "topic": job.topic, **shown, "headers": job.headers, "created": rfc3339(job.created)}


def handed_out(job: HandedOut[Any]) -> dict[str, Any]:
    return {
        **content(job),
        "receipt": job.receipt,
        "attempt": job.attempt,
        "due": rfc3339(job.due),
        "lateness_ms": exact_ms(job.lateness),
        "ttr_ms": ms(job.ttr),
    }


def info(job: JobInfo[Any]) -> dict[str, Any]:
    """A job as it is; what does not apply to its state is left out."""
    said = {
        "state": job.state,
        "due": rfc3339(job.due),
        "reserved_until": rfc3339(job.reserved_until),
        "died": rfc3339(job.died),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "ttr_ms": ms(job.ttr),
        "holder": job.holder,
        "reason": job.reason,
        "error": job.error,
        "first_failure": rfc3339(job.first_failure),
    }
    return {**content(job), **{name: value for name, value in said.items() if value is not None}}


def stats(now: Stats) -> dict[str, Any]:
    from dataclasses import fields

    apart = ("lateness", "limited")
    said: dict[str, Any] = {field.name: getattr(now, field.name) for field in fields(now) if field.name not in apart}
    lateness, limited = now.lateness, now.limited
    return {
        **{name: rfc3339(value) if isinstance(value, datetime) else value for name, value in said.items()},
        "limited": None if limited is None else {"why": limited.why, "until": rfc3339(limited.until)},
        "lateness_p50_ms": exact_ms(lateness.p50),
        "lateness_p99_ms": exact_ms(lateness.p99),
        "lateness_max_ms": exact_ms(lateness.max),
    }


def defaults(now: Defaults) -> dict[str, Any]:
    """What holds for a topic."""
    return {
        "ttr_ms": ms(now.ttr),
        "max_attempts": now.max_attempts,
        "keep_ms": ms(now.keep),
        "rate": None if now.rate is None else str(now.rate),
        "burst": now.burst,
        "concurrency": now.concurrency,
        "max_lateness_ms": ms(now.max_lateness),
    }


def schedule(now: Schedule) -> dict[str, Any]:
    """A schedule as it is."""
    try:
        body = now.body
    except BodyError as fault:
        body = str(fault)
    shown = {"body_base64": b64encode(body).decode()} if isinstance(body, bytes) else {"body": body}
    return {
        "topic": now.topic,
        "id": now.id,
        **shown,
        "every_ms": ms(now.every),
        "cron": now.cron,
        "tz": now.tz,
        "missed": now.missed,
        "next": rfc3339(now.next),
        "paused": now.paused,
        "fired": now.fired,
        "skipped": now.skipped,
        "from_code": now.from_code,
        "orphaned": now.orphaned,
        "changed": rfc3339(now.changed),
    }


def worker(info: WorkerInfo) -> dict[str, Any]:
    """A live worker."""
    import msgspec

    said = {
        name: value for name, value in msgspec.structs.asdict(info).items() if name not in ("now", "topics", "jobs")
    }
    return {
        **{name: rfc3339(value) if isinstance(value, datetime) else value for name, value in said.items()},
        "free": info.free,
        "topics": [msgspec.structs.asdict(topic) for topic in info.topics],
        "jobs": [{**msgspec.structs.asdict(job), "taken": rfc3339(job.taken)} for job in info.jobs],
    }


def crew(workers: Sequence[WorkerInfo], topic: str) -> dict[str, int]:
    """How many work on a topic, and how busy they are with it."""
    parts = [part for info in workers for part in info.topics if part.name == topic]
    return {
        "workers": len(parts),
        "busy": sum(part.busy for part in parts),
        "slots": sum(part.slots for part in parts),
    }


def time_line(past: Histogram, stretches: Sequence[Histogram]) -> dict[str, Any]:
    """How many jobs are due when."""
    return {
        "older": past.before,
        "stretches": [
            {"start": rfc3339(part.start), "width_ms": ms(part.width), "counts": part.counts}
            for part in (past, *stretches)
        ],
        "later": stretches[-1].after,
    }


def value(body: Any) -> dict[str, Any]:
    """A value that Java knows, as JSON data; bytes, and what JSON has no word for, as ``value_base64``."""
    import msgspec

    if isinstance(body, (bytes, bytearray)):
        return {"value_base64": b64encode(body).decode()}
    try:
        msgspec.json.encode(body)
    except TypeError:
        return {"value": repr(body)}
    return {"value": body}
