"""Writes to stderr for the command line: text, or with ``--json`` one line of JSON each."""

from __future__ import annotations

import sys
from typing import Any


def write_message(text: str, as_json: bool, **fields: Any) -> None:
    """Writes a message: the text, or its fields as JSON."""
    if as_json:
        import msgspec

        text = msgspec.json.encode(fields).decode()
    print(text, file=sys.stderr)
