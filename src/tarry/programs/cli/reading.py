"""What is typed, as what the library takes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tarry.errors import BadInput


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
