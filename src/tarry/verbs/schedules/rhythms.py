"""When a schedule's occurrences are: every so long, counted from one of them, or by calendar (cron) in a time zone.

Pure: moments in and out are microseconds since 1970. Cron is read by cronsim, which follows Debian's: what falls into the
hour that is skipped in spring comes right after it, what falls into the hour that comes twice in autumn comes once, and
what comes several times an hour just goes on.
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


class Rhythm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Every so many microseconds, or a cron expression and its time zone."""

    every_us: int = 0
    cron: str = ""
    tz: str = "UTC"

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


_DECODER = msgspec.json.Decoder(Rhythm)


def decode(raw: bytes) -> Rhythm:
    return _DECODER.decode(raw)


def rhythm(every: Duration | None, cron: str | None, tz: str) -> Rhythm:
    """Raises ``BadInput``."""
    if (every is None) == (cron is None):
        raise BadInput("schedule: give every= or cron=, one of the two.")
    if every is not None:
        return Rhythm(duration_us(every, "every", minimum=SHORTEST_US))
    if not isinstance(cron, str):
        raise BadInput(f'cron: {type(cron).__name__} is no text; write "0 9 * * 1-5".')
    made = Rhythm(cron=" ".join(cron.split()), tz=tz)
    if following(made, 0) is None:
        raise BadInput(f"cron: {cron!r} never comes.")
    return made


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as fault:
        raise BadInput(f'tz: {name!r} is no time zone that this machine knows; write "Europe/Berlin".') from fault


def _walk(made: Rhythm, at: int, *, back: bool) -> Iterator[int]:
    """The occurrences by calendar after a moment, or before it."""
    try:
        start = (_EPOCH + timedelta(microseconds=at)).astimezone(_zone(made.tz))
        for moment in CronSim(made.cron, start, reverse=back):
            yield (moment.astimezone(timezone.utc) - _EPOCH) // _MICROSECOND
    except CronSimError as fault:
        raise BadInput(f'cron: {made.cron!r}: {fault}; write minute hour day month weekday, "0 9 * * 1-5".') from fault
    except OverflowError:
        return


def following(made: Rhythm, after: int) -> int | None:
    """The first occurrence after a moment; ``None`` when there is none in fifty years. ``every`` counts from the moment."""
    if made.every_us:
        return min(after + made.every_us, _LAST)
    if after >= _LAST:
        return None
    return next((at for at in _walk(made, after, back=False) if at > after), None)


def several(made: Rhythm, one: int, after: int, most: int) -> list[int]:
    """The first occurrences after a moment, ``most`` of them, when ``one`` is an occurrence; none before that one."""
    at: int | None = one
    if one <= after:
        passed = (after - one) // made.every_us * made.every_us if made.every_us else after - one
        at = following(made, one + passed)
    found: list[int] = []
    while at is not None and len(found) < most:
        found.append(at)
        at = following(made, at) if at < _LAST else None
    return found


def latest(made: Rhythm, after: int, until: int, most: int) -> tuple[list[int], int]:
    """The last occurrences after a moment and until another, in order, ``most`` of them; and how many were before those
    (by calendar no more than ``most`` are counted)."""
    if until <= after:
        return [], 0
    if made.every_us:
        count = (until - after) // made.every_us
        kept = min(count, most)
        return [after + k * made.every_us for k in range(count - kept + 1, count + 1)], count - kept
    found: list[int] = []
    for at in _walk(made, (until // SECOND + 1) * SECOND, back=True):
        if at <= after or len(found) == 2 * most:
            break
        if at <= until:
            found.append(at)
    return found[:most][::-1], len(found[most:])
