"""Ends of jobs, in the order of their moments, from what a topic keeps: finished, dead, too late.

    position                     all ends before it have been read
    1800000000123456-7-1799…     behind the end of job 7 at this µs of the server, of the run with this receipt
    1800000000123456             at this µs; every end of an earlier one has been read

A job may end again under its id. Of two ends in the same µs the id comes first that is first byte by byte, of one id the first run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import LAST_MOMENT_US, moment_us
from tarry.verbs.jobs.job_values import JobInfo

T = TypeVar("T")
EndState = Literal["finished", "dead", "late"]
"""How a job ended. ``late``: it is dead because it was later than its ``max_lateness``."""
_ID = re.compile(r"(\d{1,18})(?:-(.+)-(\d{1,18}))?", re.S)


class Position(NamedTuple):
    """A place among the ends; ``at`` is ``None`` for now."""

    at: int | None
    job: bytes = b""
    run: int = 0

    def __str__(self) -> str:
        return f"{self.at}-{self.job.decode()}-{self.run}" if self.job else str(self.at)


@dataclass(frozen=True, slots=True)
class End(Generic[T]):
    """How one job ended: finished, dead, or too late."""

    id: str
    """Names this end: its moment, the job's id, and the receipt of the run. Give it as ``since=`` to read the ends that follow."""
    state: EndState
    """``finished``, ``dead``, or ``late``, which means: dead, because the job was later than its ``max_lateness``."""
    at: datetime
    """When the job ended, by the server's clock, to the microsecond."""
    job: JobInfo[T]
    """The job as it is kept, with its result if it was finished, or the reason why it died."""


@dataclass(frozen=True, slots=True)
class UnknownEnds:
    """Some ends of jobs from ``since`` to ``until`` are missing, because they are no longer kept. The ends that are still kept follow."""

    since: datetime
    """Where the gap begins."""
    until: datetime
    """Where the gap ends."""


class EndsPage(NamedTuple):
    """Some ends in their order, and the position behind them. ``again_in_s``: when to read on; ``None``: at the next news."""

    found: Sequence[Any]
    position: Position
    again_in_s: float | None


def position_of(since: str | datetime | None) -> Position:
    """Where to begin: behind an id, at a moment, now. Raises ``BadInput``."""
    if since is None:
        return Position(None)
    if isinstance(since, datetime):
        return Position(moment_us(since, "since"))
    if isinstance(since, str) and (found := _ID.fullmatch(since)) and int(found[1]) <= LAST_MOMENT_US:
        job = b"" if found[2] is None else names.check_name(found[2], "since")
        return Position(int(found[1]), job, int(found[3] or 0))
    raise BadInput(
        f"since: {since!r:.80} is no id of an end, such as 1800000000123456-7-1799999999000001, and no moment."
    )
