"""What is typed, as what the library takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarry.errors import BadInput

if TYPE_CHECKING:
    from tarry.verbs.jobs.shapes import NewJob

_OPTIONS = frozenset("body id delay at ttr max_attempts headers".split())


def body(text: str, *, raw: bool) -> Any:
    """JSON text as data; with ``raw`` the text itself."""
    if raw:
        return text
    try:
        return json.loads(text)
    except ValueError as fault:
        raise BadInput(
            f"body: {fault}; give JSON (text in quotes inside the quotes), or --raw for plain text."
        ) from fault


def moment(text: str | None, what: str) -> datetime | None:
    """An ISO 8601 moment with its zone: ``2026-02-03T04:05:06Z``."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as fault:
        raise BadInput(f"{what}: {text!r} is no moment; write 2026-02-03T04:05:06Z.") from fault


def wait(text: str) -> str | None:
    return None if text == "forever" else text


def limit(text: str | int | None) -> int | None:
    """``--max-attempts``: a number, or ``none`` for no limit; -1 means what the topic has."""
    if text is None:
        return -1
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError as fault:
        raise BadInput(f"max_attempts: {text!r}; give a number, or none.") from fault


def headers(pairs: list[str] | None) -> dict[str, str] | None:
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"header: {pair!r}; write name=value.")
        found[name] = value
    return found or None


def new_jobs(path: str, *, raw: bool) -> list[NewJob[Any]]:
    """Jobs from a file, ``-`` for stdin, one a line: ``{"body": …, "id": …, "delay": "10m"}``; with ``raw`` a text each."""
    from tarry.verbs.jobs.shapes import NewJob

    return [NewJob(line) if raw else _new_job(line, number) for number, line in enumerate(_lines(path), 1) if line]


def _lines(path: str) -> Iterator[str]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise BadInput(f"file: {fault}.") from fault
    return (line.strip() for line in text.split("\n"))


def _new_job(line: str, number: int) -> NewJob[Any]:
    from tarry.verbs.jobs.shapes import NewJob

    try:
        said = json.loads(line)
    except ValueError as fault:
        raise BadInput(f"line {number}: {fault}.") from fault
    if not isinstance(said, dict) or "body" not in said or said.keys() - _OPTIONS:
        raise BadInput(
            f"line {number}: an object with body is wanted, and perhaps id, delay, at, ttr, max_attempts, headers."
        )
    if "max_attempts" not in said:
        said["max_attempts"] = -1
    return NewJob(said.pop("body"), **{**said, "at": moment(said.get("at"), f"line {number}: at")})
