"""Writes to stderr for the command line: text, or with ``--json`` one line of JSON each."""

from __future__ import annotations

import sys
from typing import Any

from tarry.values.printable import json_line, one_line


def write_message(text: str, as_json: bool, **fields: Any) -> None:
    """Writes a message: the text in one line, or its fields as JSON."""
    if as_json:
        import msgspec

        text = json_line(msgspec.json.encode(fields).decode())
    print(one_line(text), file=sys.stderr)
