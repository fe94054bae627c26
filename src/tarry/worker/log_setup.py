"""Logs of ``tarry worker``: plain text, or JSON with one object a line and the topic, id and the like as fields."""

from __future__ import annotations

import logging
import sys

from tarry.errors import BadInput
from tarry.values.printable import log_formatter

FORMATS = ("text", "json")


configured: tuple[str, str] | None = None
"""The format and the level that ``configure_logging`` was called with; child processes log in the same way."""


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
    handler.setFormatter(log_formatter(format))
    logging.basicConfig(level=max(number, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("tarry").setLevel(number)
