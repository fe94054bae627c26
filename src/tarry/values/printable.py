"""Text from outside, made safe to write to a terminal or a log: nothing in it moves the cursor, changes a colour, begins a line or
reverses its order.

Everything that Python calls not printable is written as an escape: controls (ESC, C1, CR, LF), marks of direction, zero widths,
halves of surrogate pairs. A second pass changes nothing.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any

INDENT = "    "


def one_line(text: str, *, as_json: bool = False) -> str:
    r"""The text in one line: ``\x1b``, ``\n`` and ``\u202e`` instead of the characters. ``as_json``: it is JSON, and the answer means
    the same: such characters can only be in strings, which may have them as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] if as_json else _escaped(c) for c in text)


def indented(lines: str) -> str:
    """The same for text of several lines. All but the first are indented, so that none can pass for a line of ours."""
    return f"\n{INDENT}".join(map(one_line, lines.split("\n")))


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


class JsonFormatter(logging.Formatter):
    """``{"at": …, "level": …, "logger": …, "message": …, "topic": …, "id": …}``"""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        fields: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "tarry", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        import msgspec  # the start of a command needs none

        try:
            text = msgspec.json.encode(fields, enc_hook=str).decode()
        except UnicodeEncodeError:  # halves of surrogate pairs, which file names may have
            text = json.dumps(fields, default=str)
        return one_line(text, as_json=True)


def log_formatter(format: str, text: str | None = None) -> logging.Formatter:
    """The formatter of a format; ``text`` is that of a line of text, as in ``logging``."""
    return JsonFormatter() if format == "json" else TextFormatter() if text is None else TextFormatter(text)


def _escaped(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
