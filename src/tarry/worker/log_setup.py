"""Logs of ``tarry worker``: plain text, or JSON with one object a line and the topic, id and the like as fields."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any

import msgspec

from tarry.errors import BadInput
from tarry.values.printable import TextFormatter, json_line

FORMATS = ("text", "json")


configured: tuple[str, str] | None = None
"""The format and the level that ``configure_logging`` was called with; child processes log in the same way."""


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
        try:
            text = msgspec.json.encode(fields, enc_hook=str).decode()
        except UnicodeEncodeError:  # halves of surrogate pairs, which file names may have
            text = json.dumps(fields, default=str)
        return json_line(text)


def configure_logging(format: str, level: str) -> None:
    """Sends all logs of the process to stderr, in one format. Raises ``BadInput``."""
    if format not in FORMATS:
        raise BadInput(f"log: {format!r}; it is text or json.")
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise BadInput(f"log level: {level!r}; it is debug, info, warning or error.")
    global configured  # of the process, as logging's own configuration is
    configured = (format, level)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("tarry").setLevel(number)
