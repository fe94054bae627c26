"""Rates: a number of jobs in a span of time.

Arguments: ``"100/1m"``, ``"5/s"``, ``(100, "1m")``, or a number of jobs per second. Results: a ``Rate``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from tarry.errors import BadInput
from tarry.values.durations import DAY, MILLISECOND, Duration, as_text, as_timedelta, duration_us

RateLike = int | str | tuple[int, Duration]
"""A rate as a user writes it."""

MOST, LONGEST_US = 1_000_000, 366 * DAY
_TEXT = re.compile(r"(\d+)\s*/\s*(\S.*)", re.ASCII)
_HINT = 'write "100/1m", (100, "1m"), or a number of jobs per second'
_TEXT_HINT = 'write "100/1m" or "5/s"'


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: ``count`` jobs in each span of the length ``per``."""

    count: int
    """The number of jobs."""
    per: timedelta
    """The length of the span."""

    def __str__(self) -> str:
        return f"{self.count}/{as_text(self.per // timedelta(microseconds=1))}"


def parse_rate(value: object, what: str = "rate") -> tuple[int, int]:
    """The number of jobs, and the span in microseconds. Raises ``BadInput``."""
    count: object = value
    span: Duration = 1
    if isinstance(value, str) and (match := _TEXT.fullmatch(value.strip())):
        count, span = int(match[1][:12]), match[2] if match[2][:1].isdigit() or match[2][:1] == "P" else "1" + match[2]
    elif isinstance(value, tuple) and len(value) == 2:
        count, span = value
    if not isinstance(count, int) or isinstance(count, bool):
        raise BadInput(f"{what}: {value!r}; {_TEXT_HINT if isinstance(value, str) else _HINT}.")
    if not 1 <= count <= MOST:
        paused = "key" if what == "key_rate" else "topic"
        raise BadInput(
            f"{what}: {count} jobs; it is a whole number from 1 to {MOST:,}. To hand out nothing, pause the {paused}."
        )
    try:
        us = duration_us(span, what, minimum=MILLISECOND)
    except BadInput as fault:
        raise BadInput(f"{what}: {value!r}; {_TEXT_HINT}, with a time of 1 ms or more.") from fault
    if us > LONGEST_US:
        raise BadInput(f"{what}: its span is longer than a year.")
    return count, us


def as_rate(count: int, span_us: int) -> Rate:
    return Rate(count, as_timedelta(span_us))
