"""Parses arguments of the command line into values that the library takes."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType

from tarry.errors import BadInput


def parse_body(text: str, *, raw: bool, what: str = "body") -> Any:
    """JSON text as data; with ``raw`` the text itself."""
    if raw:
        return text
    try:
        found = json.loads(text, parse_constant=_refuse)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what}: it contains half of a surrogate pair, which UTF-8 cannot encode.") from None
    except RecursionError:
        raise BadInput(f"{what}: it is nested too deeply.") from None
    except ValueError as fault:
        raise BadInput(
            f"{what}: {fault}; give JSON (text in quotes inside the quotes), or --raw for plain text."
        ) from fault
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"JSON has no {word}")


def parse_moment(text: str | None, what: str) -> datetime | None:
    """An ISO 8601 moment with its zone: ``2026-02-03T04:05:06Z``."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as fault:
        raise BadInput(f"{what}: {text!r} is not a moment; write 2026-02-03T04:05:06Z.") from fault
    if found.tzinfo is None:
        raise BadInput(f"{what}: {text!r} has no time zone; write 2026-02-03T04:05:06Z, or +01:00 for Z.")
    return found


def parse_wait(text: str) -> str | None:
    return None if text == "forever" else text


def parse_limit(text: str | int | None) -> int | UnsetType | None:
    """``--max-attempts``: a number, or ``none`` for no limit; without it the topic's holds."""
    if text is None:
        return UNSET
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError as fault:
        raise BadInput(f"max_attempts: {text!r}; give a number, or none.") from fault


def parse_choice(text: str) -> Any:
    """A word, which the library checks."""
    return text


def parse_durability(text: str | None) -> Any:
    """``--durability``: a number of replicas, or a word, which the library checks."""
    return int(text) if text is not None and text.isdecimal() else text


def parse_headers(pairs: list[str] | None) -> dict[str, str] | None:
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadInput(f"header: {pair!r}; write name=value.")
        found[name] = value
    return found or None
