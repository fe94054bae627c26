"""The fields of a job and of its attempts, as values: parsed from a stored record (``records.py``), or taken from a service's answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType

NO_LIMIT = 2**32 - 1
"""``max_attempts`` of a job that has no limit."""
NO_NONCE = bytes(6)
"""The nonce of a job whose id tarry made: the id itself is unique."""


def given_max_attempts(stored: int) -> int | UnsetType | None:
    """``max_attempts`` as it was given; stored as 0 if it was not."""
    return UNSET if stored == 0 else None if stored == NO_LIMIT else stored


class JobContents(NamedTuple):
    """The fields of a job, as ``add`` stored them."""

    created: int = 0
    flags: int = 0
    body: bytes = b""
    nonce: bytes = NO_NONCE
    ttr_ms: int = 0
    max_attempts: int = 0
    headers: bytes | dict[str, str] | None = b""
    """As they are stored, or as a map; ``None``: they cannot be read."""
    max_lateness_us: int | None = None
    """Microseconds after the due time; ``None`` if the job has no limit."""
    priority: int = 0
    key: str | None = None
    first: int | None = None
    """The moment of the first event that the job stands for (lua/lib/latest.lua); ``None`` if it is this one."""
    steps: bytes | Mapping[str, bytes] = b""
    """The results of its steps, as they are stored, or by their names."""

    @property
    def given_max_attempts(self) -> int | UnsetType | None:
        """``max_attempts`` as it was given."""
        return given_max_attempts(self.max_attempts)


Record = bytes | JobContents
"""A job's record as it is stored, or its fields where they come from a service."""


class JobRun(NamedTuple):
    """A job's attempts so far."""

    attempt: int
    limit: int
    receipt: int
    first_failure: int
    holder: str
    fault: str
    note: str = ""
    """A remark beside the failure."""


class FailedAttempt(Struct, frozen=True):
    """One attempt that failed."""

    number: int
    """Which attempt it was, from 1."""
    began: datetime
    """When the attempt began: when the job was handed out, by the server's clock."""
    ended: datetime
    """When the failure was reported, by the server's clock."""
    holder: str
    """The consumer that had the job; empty if it gave no name."""
    error: str
    """The reason of the failure, and the first line of its error."""


class FinishedRecord(NamedTuple):
    """How a finished job ended, as it is kept. ``result`` is JSON, or empty; ``not_kept`` says why it is not there."""

    finished: int
    result: bytes = b""
    not_kept: str = ""
    left_out: int = 0
    """How many bytes head and body had, if they are too large to be kept."""


NO_RUN = JobRun(0, 0, 0, 0, "", "")
