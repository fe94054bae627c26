"""The options of ``add``, checked and encoded for the script."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND, Duration, duration_us, moment_us
from tarry.verbs.jobs import records
from tarry.verbs.jobs.models import IfExists

TOPIC_DEFAULT = -1
"""``max_attempts`` of the topic; ``None`` means no limit."""

_MARKS: dict[str, bytes] = {"error": b"e", "keep": b"k", "replace": b"r"}
NEW_MARK = b"n"
"""The mark of a job whose id tarry made: no other job has it."""
_SEEN_MARK = b"s"


class JobOptions(NamedTuple):
    """The options of one call, for all its jobs."""

    mark: bytes
    when: bytes
    ttr_ms: int
    max_attempts: int
    headers: bytes
    latest: int | None
    """Microseconds after its due time; ``None`` if not given."""
    json_head: bytes
    """The head of a job with these options, a JSON body and no nonce."""

    def head(self, flags: int, nonce: bytes) -> bytes:
        if not flags and nonce is records.NO_NONCE:
            return self.json_head
        return records.pack_head(flags, self.ttr_ms, self.max_attempts, nonce, self.headers, self.latest)

    def replacing_nonce(self, nonce: bytes) -> JobOptions:
        """The same options, to replace the job that was added with this nonce; refused if the id now belongs to another one."""
        return self._replace(mark=_SEEN_MARK + nonce)


def job_options(
    delay: Duration | None = 0,
    at: datetime | None = None,
    if_exists: IfExists = "error",
    ttr: Duration | None = None,
    max_attempts: int | None = TOPIC_DEFAULT,
    headers: Mapping[str, str] | None = None,
    max_lateness: Duration | None = None,
) -> JobOptions:
    """Checks and encodes options. Raises ``BadInput``."""
    if delay is None and at is None:
        raise BadInput("delay: it is None; write 0 for now, or leave it out.")
    if delay is not None and at is None and headers is None and ttr is None and max_lateness is None:
        try:
            return _cached_options(delay, if_exists, max_attempts)
        except TypeError:
            pass  # not hashable, and so wrong: the checks below raise the error
    latest = max_lateness_us(max_lateness)
    return _build(when_of(delay, at), if_exists, ttr_ms_of(ttr), max_attempts, records.pack_headers(headers), latest)


@lru_cache(maxsize=256, typed=True)
def _cached_options(delay: Duration, if_exists: IfExists, max_attempts: int | None) -> JobOptions:
    return _build(when_of(delay, None), if_exists, 0, max_attempts, b"", None)


def _build(
    when: bytes, if_exists: IfExists, ttr_ms: int, max_attempts: int | None, headers: bytes, latest: int | None
) -> JobOptions:
    mark = _MARKS.get(if_exists) if isinstance(if_exists, str) else None
    if mark is None:
        raise BadInput(f'if_exists: {if_exists!r} is unknown; it is "error", "keep" or "replace".')
    limit = max_attempts_of(max_attempts)
    head = records.pack_head(0, ttr_ms, limit, records.NO_NONCE, headers, latest)
    return JobOptions(mark, when, ttr_ms, limit, headers, latest, head)


def when_of(delay: Duration | None, at: datetime | None) -> bytes:
    """A delay in microseconds, or ``@`` and a moment, as the scripts expect it."""
    if at is None:
        return b"%d" % duration_us(0 if delay is None else delay)
    if delay:
        raise BadInput("delay and at: give one of the two.")
    return b"@%d" % moment_us(at)


def ttr_ms_of(ttr: Duration | None) -> int:
    """Whole milliseconds, rounded up; 0 if not given."""
    if ttr is None:
        return 0
    ms = -(-duration_us(ttr, "ttr", minimum=MILLISECOND) // MILLISECOND)
    if ms > records.LONGEST_TTR_MS:
        raise BadInput("ttr: longer than 49 days; touch the job from time to time instead.")
    return ms


def max_lateness_us(max_lateness: Duration | None) -> int | None:
    """Microseconds; ``None`` if not given."""
    return None if max_lateness is None else duration_us(max_lateness, "max_lateness", minimum=MILLISECOND)


def max_attempts_of(value: int | None) -> int:
    if value is None:
        return records.NO_LIMIT
    if not isinstance(value, int) or isinstance(value, bool) or not (1 <= value < 1_000_000 or value == TOPIC_DEFAULT):
        raise BadInput(f"max_attempts: {value!r}; it is a whole number from 1 to 999,999, or None for no limit.")
    return 0 if value == TOPIC_DEFAULT else value


DEFAULT_OPTIONS = job_options()
