"""Text from outside, made safe to write to a terminal or a log: nothing in it moves the cursor, changes a colour, begins a line or
reverses its order.

Everything that Python calls not printable is written as an escape: controls (ESC, C1, CR, LF), marks of direction, zero widths,
halves of surrogate pairs. A second pass changes nothing.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime

INDENT = "    "


def one_line(text: str) -> str:
    r"""The text in one line: ``\x1b``, ``\n`` and ``\u202e`` instead of the characters."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def indented(lines: str) -> str:
    """The same for text of several lines. All but the first are indented, so that none can pass for a line of ours."""
    return f"\n{INDENT}".join(map(one_line, lines.split("\n")))


def json_line(text: str) -> str:
    """JSON of the same value, without such characters: they can only be in strings, which may have them as escapes."""
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class TextFormatter(logging.Formatter):
    """One line a record, whatever is in its text; the lines of a traceback are indented, so that none can pass for a record."""

    def __init__(self, format: str = "%(asctime)s %(levelname)-7s %(message)s") -> None:
        super().__init__(format)

    def format(self, record: logging.LogRecord) -> str:
        return indented(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's
        return one_line(super().formatMessage(record))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002  # logging's
        return datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]  # noqa: DTZ006  # local time, for people


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
