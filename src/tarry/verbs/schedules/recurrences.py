"""The occurrences of a schedule: at an interval, counted from one of them, or by calendar (cron) in a time zone.

Pure functions: moments are microseconds since 1970. Cron is parsed by cronsim, which follows Debian's cron: an occurrence in
the
hour that is skipped in spring comes right after it, one in the hour that is repeated in autumn comes once, and those several
times an hour just go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from tarry.errors import BadInput
from tarry.values.durations import LAST_MOMENT_US, SECOND, Duration, duration_us

SHORTEST_US = SECOND // 10
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_LAST = LAST_MOMENT_US - 366 * 86400 * SECOND


class Recurrence(msgspec.Struct, frozen=True, omit_defaults=True):
    """An interval in microseconds, or a cron expression and its time zone."""

    every_us: int = 0
    cron: str = ""
    tz: str = "UTC"

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


_DECODER = msgspec.json.Decoder(Recurrence)


def decode(raw: bytes) -> Recurrence:
    return _DECODER.decode(raw)


NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""Words of other crons, and the fields that they stand for."""


def make_recurrence(every: Duration | None, cron: str | None, tz: str) -> Recurrence:
    """The recurrence for the arguments of a schedule. Raises ``BadInput``."""
    if (every is None) == (cron is None):
        raise BadInput("schedule: give every= or cron=, one of the two.")
    if every is not None:
        return Recurrence(duration_us(every, "every", minimum=SHORTEST_US))
    if not isinstance(cron, str):
        raise BadInput(f'cron: {type(cron).__name__} is not a str; write "0 9 * * 1-5".')
    if (fields := NICKNAMES.get(cron.strip().lower())) is not None:
        raise BadInput(f'cron: {cron!r} is not taken; write "{fields}".')
    made = Recurrence(cron=" ".join(cron.split()), tz=tz)
    if next_occurrence(made, 0) is None:
        raise BadInput(f"cron: {cron!r} never comes.")
    return made


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as fault:
        raise BadInput(f'tz: {name!r} is no time zone that this machine knows; write "Europe/Berlin".') from fault


def _cron_occurrences(recurrence: Recurrence, at: int, *, backwards: bool) -> Iterator[int]:
    """The occurrences by calendar after a moment, or before it."""
    try:
        start = (_EPOCH + timedelta(microseconds=at)).astimezone(_zone(recurrence.tz))
        for moment in CronSim(recurrence.cron, start, reverse=backwards):
            yield (moment.astimezone(timezone.utc) - _EPOCH) // _MICROSECOND
    except CronSimError as fault:
        raise BadInput(
            f'cron: {recurrence.cron!r}: {fault}; write minute hour day month weekday, "0 9 * * 1-5".'
        ) from fault
    except OverflowError:
        return


def next_occurrence(recurrence: Recurrence, after: int) -> int | None:
    """The first occurrence after a moment; ``None`` if there is none in fifty years. An interval counts from the moment."""
    if recurrence.every_us:
        return min(after + recurrence.every_us, _LAST)
    if after >= _LAST:
        return None
    return next((at for at in _cron_occurrences(recurrence, after, backwards=False) if at > after), None)


def next_occurrences(recurrence: Recurrence, one: int, after: int, most: int) -> list[int]:
    """The first ``most`` occurrences after a moment, if ``one`` is an occurrence; none before ``one``."""
    at: int | None = one
    if one <= after:
        passed = (after - one) // recurrence.every_us * recurrence.every_us if recurrence.every_us else after - one
        at = next_occurrence(recurrence, one + passed)
    found: list[int] = []
    while at is not None and len(found) < most:
        found.append(at)
        at = next_occurrence(recurrence, at) if at < _LAST else None
    return found


def last_occurrences(recurrence: Recurrence, after: int, until: int, most: int) -> tuple[list[int], int]:
    """The last ``most`` occurrences after a moment and up to another, in order; and the number of those before them (by
    calendar at most ``most`` are counted)."""
    if until <= after:
        return [], 0
    if recurrence.every_us:
        count = (until - after) // recurrence.every_us
        kept = min(count, most)
        return [after + k * recurrence.every_us for k in range(count - kept + 1, count + 1)], count - kept
    found: list[int] = []
    for at in _cron_occurrences(recurrence, (until // SECOND + 1) * SECOND, backwards=True):
        if at <= after or len(found) == 2 * most:
            break
        if at <= until:
            found.append(at)
    return found[:most][::-1], len(found[most:])
