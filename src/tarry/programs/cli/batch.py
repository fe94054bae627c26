"""Adds many jobs from a file, one a line: ``{"body": …, "id": "7", "delay": "10m"}``, or plain text."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_type_hints

import msgspec

from tarry import Added, NewJob
from tarry.errors import BadInput
from tarry.internal import JobOptions, perform, server_verbs
from tarry.programs.cli.progress import progress
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry import Topic


def _line_type() -> type[msgspec.Struct]:
    """A line has the fields of a ``NewJob``; a duration is a number or text."""
    kinds = get_type_hints(NewJob)
    options = [(one.name, _as_json(kinds[one.name]), one.default) for one in fields(NewJob) if one.name != "body"]
    return msgspec.defstruct("Line", [("body", Any), *options], forbid_unknown_fields=True)


def _as_json(kind: Any) -> Any:
    return Union[tuple(part for part in get_args(kind) if part is not timedelta)]  # noqa: UP007  # made of parts


LINE = _line_type()
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_decode = msgspec.json.Decoder(LINE).decode


def add_from_file(
    session: CommandSession,
    handle: Topic[Any],
    path: str,
    options: JobOptions,
    *,
    raw: bool,
    limit: int | None,
    dry_run: bool,
) -> Sequence[Added]:
    """Adds the jobs of a file, with a progress bar; ``dry_run`` only checks them and prints their number."""
    topic, jobs = handle.name, new_jobs(path, raw=raw)[:limit]
    if not dry_run:
        perform(handle, server_verbs(handle).partitions())  # first, so that each answer below counts as progress
    adding = server_verbs(handle).add_many(jobs, options, atomic=False)
    if dry_run:
        session.print_answer({"topic": topic, "would_add": len(jobs)}, f"{topic}  {len(jobs)} jobs would be added")
        return ()
    with progress(f"{topic}: adding", len(jobs)) as advance:
        return perform(handle, adding, registers=bool(jobs), on_answer=lambda _, step: advance(len(step)))


def new_jobs(path: str, *, raw: bool) -> list[NewJob[Any]]:
    """The jobs of a file, ``-`` for stdin; empty lines are skipped. Raises ``BadInput`` with the line's number."""
    lines = enumerate(_text_of(path).split("\n"), 1)
    return [NewJob(line) if raw else _new_job(line, number) for number, line in lines if line.strip()]


def _text_of(path: str) -> str:
    """The file's text, without the mark that PowerShell and Excel write before UTF-8."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as fault:
        raise BadInput(f"file: {path!r}: {fault.strerror}.") from fault
    if content.startswith(UTF_16):
        raise BadInput(f"file: {path!r} is UTF-16, as PowerShell's > writes it; save it as UTF-8.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise BadInput(f"file: {path!r} is not UTF-8, from byte {fault.start} on.") from fault


def _new_job(line: str, number: int) -> NewJob[Any]:
    try:
        job = _decode(line)
    except msgspec.MsgspecError as fault:
        *others, last = [one.name for one in fields(NewJob) if one.name != "body"]
        raise BadInput(
            f'line {number}: {fault}; write {{"body": …}}, with {", ".join(others)} or {last} as needed.'
        ) from fault
    return NewJob(**msgspec.structs.asdict(job))
