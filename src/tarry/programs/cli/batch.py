"""Adds many jobs from a file, one a line: ``{"body": …, "id": "7", "delay": "10m"}``, or plain text."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from tarry.core.requests import flow_of
from tarry.errors import BadInput
from tarry.programs.cli.progress import progress, with_progress
from tarry.programs.cli.session import CommandSession
from tarry.verbs.jobs.durability import with_durability
from tarry.verbs.jobs.models import Added, NewJob
from tarry.verbs.jobs.partition import TOPIC_DEFAULT


class _BatchLine(msgspec.Struct, forbid_unknown_fields=True):
    body: Any
    id: str | None = None
    delay: int | float | str | None = None
    at: datetime | None = None
    ttr: int | float | str | None = None
    max_attempts: int | None = TOPIC_DEFAULT
    headers: Mapping[str, str] | None = None
    max_lateness: int | float | str | None = None


_decode = msgspec.json.Decoder(_BatchLine).decode


def add_from_file(
    session: CommandSession,
    topic: str,
    path: str,
    options: Mapping[str, Any],
    *,
    raw: bool,
    limit: int | None,
    dry_run: bool,
) -> Sequence[Added]:
    """Adds the jobs of a file, with a progress bar; ``dry_run`` only checks them and prints their number."""
    handle = session.topic(topic, options["partitions"])
    jobs = new_jobs(path, raw=raw)[:limit]
    if not dry_run:
        handle.engine.run(handle.verbs.partitions())  # first, so that each answer below counts as progress
    operation = handle.verbs.add_many(
        jobs,
        options["delay"],
        options["at"],
        options["if_exists"],
        options["ttr"],
        options["max_attempts"],
        options["headers"],
        False,
        options["max_lateness"],
    )
    flow = flow_of(with_durability(operation, options["durability"]))
    if dry_run:
        session.print_answer({"topic": topic, "would_add": len(jobs)}, f"{topic}  {len(jobs)} jobs would be added")
        return ()
    if jobs:
        handle.engine.register_topic(topic)
    with progress(f"{topic}: adding", len(jobs)) as advance:
        return handle.engine.run(with_progress(flow, lambda step: advance(len(step))))


def new_jobs(path: str, *, raw: bool) -> list[NewJob[Any]]:
    """The jobs of a file, ``-`` for stdin; empty lines are skipped. Raises ``BadInput`` with the line's number."""
    lines = enumerate(_text_of(path).split("\n"), 1)
    return [NewJob(line) if raw else _new_job(line, number) for number, line in lines if line.strip()]


def _text_of(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as fault:
        raise BadInput(f"file: {path!r}: {fault.strerror}.") from fault
    except UnicodeDecodeError as fault:
        raise BadInput(f"file: {path!r} is not UTF-8, from byte {fault.start} on.") from fault


def _new_job(line: str, number: int) -> NewJob[Any]:
    try:
        job = _decode(line)
    except msgspec.MsgspecError as fault:
        raise BadInput(
            f'line {number}: {fault}; write {{"body": …}}, with id, delay, at, ttr, max_attempts, headers, max_lateness as needed.'
        ) from fault
    return NewJob(
        job.body,
        delay=job.delay,
        at=job.at,
        id=job.id,
        ttr=job.ttr,
        max_attempts=job.max_attempts,
        headers=job.headers,
        max_lateness=job.max_lateness,
    )
