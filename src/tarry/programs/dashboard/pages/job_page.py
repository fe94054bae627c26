"""The page of one job: its body, headers, history, and why it is in its state."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from tarry import JobInfo, Schedule
from tarry.errors import BodyError, NoResult
from tarry.internal import JSON_FAULTS, RAW, as_datetime, head_of, perform, server_verbs
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.explanations import JobFacts, explain, failure, is_exhausted
from tarry.programs.dashboard.lifecycle import actions_for, is_editable
from tarry.programs.dashboard.page_request import NotFound, PageRequest
from tarry.programs.dashboard.sections import Section
from tarry.programs.dashboard.tracebacks import fold_frames

MOST_TEXT, MOST_BYTES, WIDTH = 64 << 10, 4 << 10, 16
LATELY_S = 600.0


@dataclass(frozen=True, slots=True)
class ShownBody:
    """A body for the page; ``kind`` is JSON, text, bytes or unreadable."""

    kind: str
    text: str
    size: int
    cut: bool


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to the job, or will happen; ``began`` is for what took a time."""

    at: datetime | None
    what: str
    kind: str = ""
    began: datetime | None = None


async def view(visit: PageRequest) -> dict[str, Any]:
    topic, id = visit.topic(), visit.query.get("id", "")
    job, stats, settings, workers, held = await asyncio.gather(
        topic.get(id),
        topic.stats(),
        topic.configure(),
        visit.client.workers(),
        perform(visit.client, server_verbs(topic).is_held(id)),
    )
    if job is None:
        raise NotFound(f"{topic.name} has no job with this id: it was finished or deleted, or never added.")
    ahead = 0
    if job.state == "ready" and not held and job.due is not None:
        ahead = await perform(visit.client, server_verbs(topic).count_due_between(stats.now, "ready", None, job.due))
    key = None
    with suppress(BodyError):
        if job.state == "ready" and not held and job.key is not None:
            key = await topic.stats(key=job.key)
    pace = visit.dashboard.sampler.of(topic.name).rate("popped", LATELY_S)
    known = JobFacts(
        job=job,
        stats=stats,
        settings=settings,
        workers=workers,
        timed_out=held and job.state == "ready",
        ahead=ahead,
        pace=pace,
        key=key,
    )
    return {
        "topic": topic.name,
        "job": job,
        "stats": stats,
        "settings": settings,
        "why": explain(known),
        "limit": known.limit,
        "priority": known.priority,
        "key": known.key_name,
        "life": job_history(known),
        "trace": fold_frames(job.error) if job.error else [],
        "body": body(job),
        "result": _result(job),
        "steps": _steps(job),
        "headers": headers(job),
        "created": _created(job),
        "actions": actions_for(job.state),
        "editable": is_editable(job.state),
    }


def job_history(known: JobFacts) -> list[JobEvent]:
    """The known events of the job, in order; not every event is stored."""
    job = known.job
    found = [JobEvent(_created(job), "added")]
    unrecorded = job.attempts - len(job.failed_attempts) - (not _has_failed(job))
    if unrecorded > 0:
        found.append(JobEvent(job.first_failure, f"{unrecorded} earlier attempts: their errors are no longer kept"))
    for failed in reversed(job.failed_attempts):
        took = filters.span(failed.ended - failed.began)
        what = (
            f"attempt {failed.number}, by {failed.holder or 'an unknown holder'}, failed after {took}: {failed.error}"
        )
        found.append(JobEvent(failed.ended, what, "late", failed.began))
    if job.attempts and not _has_failed(job):
        what = f"attempt {job.attempts}: handed out to {job.holder or 'an unknown holder'}"
        found.append(JobEvent(as_datetime(job.receipt) if job.receipt else None, what))
    if job.state == "reserved":
        found.append(JobEvent(job.reserved_until, "its time to run ends", "reserved"))
    elif job.state == "dead":
        is_told = _has_failed(job) and job.failed_attempts[0].error == job.reason
        why = ": no attempt was left" if is_exhausted(job) else "" if is_told else f": {failure(job)}"
        found.append(JobEvent(job.died, f"died{why}", "dead"))
    elif job.state == "finished":
        found.append(JobEvent(job.finished, "finished", "finished"))
    elif known.timed_out:
        found.append(JobEvent(job.due, "its time to run ended", "late"))
    else:
        found.append(JobEvent(job.due, "due" if job.state == "delayed" else "became ready", job.state))
    return found


def _has_failed(job: JobInfo[Any]) -> bool:
    """Whether its last attempt is one of those that failed."""
    return bool(job.failed_attempts) and job.failed_attempts[0].number == job.attempts


def _result(job: JobInfo[Any]) -> str:
    try:
        result = job.result
    except NoResult:
        return ""
    return "" if result is None else msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def _steps(job: JobInfo[Any]) -> dict[str, int]:
    """The steps that the job has kept, with the sizes of their results."""
    try:
        return {name: len(result) for name, result in job.kept_steps.items()}
    except BodyError:
        return {}


def body(job: JobInfo[Any] | Schedule) -> ShownBody:
    """The body: JSON indented, other text as it is, bytes as hex."""
    try:
        raw, flags = job.raw, head_of(job).flags
    except BodyError as fault:
        return ShownBody("unreadable", str(fault), 0, cut=False)
    if flags != RAW:
        try:
            text = msgspec.json.format(raw, indent=2).decode()
        except JSON_FAULTS:
            pass
        else:
            return ShownBody("JSON", text[:MOST_TEXT], len(raw), len(text) > MOST_TEXT)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ShownBody("bytes", dump(raw[:MOST_BYTES]), len(raw), len(raw) > MOST_BYTES)
    if any(not sign.isprintable() and sign not in "\r\n\t" for sign in text[:MOST_BYTES]):
        return ShownBody("bytes", dump(raw[:MOST_BYTES]), len(raw), len(raw) > MOST_BYTES)
    return ShownBody("text", text[:MOST_TEXT], len(raw), len(text) > MOST_TEXT)


def dump(raw: bytes) -> str:
    """A hex dump, sixteen bytes a line, with the printable characters beside them."""
    rows = []
    for at in range(0, len(raw), WIDTH):
        part = raw[at : at + WIDTH]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
        rows.append(f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {seen}")
    return "\n".join(rows)


def headers(job: JobInfo[Any] | Schedule) -> dict[str, str]:
    try:
        return job.headers
    except BodyError:
        return {}


def _created(job: JobInfo[Any]) -> datetime | None:
    try:
        return job.created
    except BodyError:
        return None


SECTIONS = (Section("/job", "job.html", view, every_s=1.0),)
