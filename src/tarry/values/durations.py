"""Durations and moments: parsing and formatting.

Arguments: a number of seconds, a ``timedelta``, ``"10m"``, ``"1h30m"`` or ISO 8601 ``"PT10M"``.
Results: ``timedelta`` and aware UTC datetimes. Inside: whole microseconds, always an ``int``.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone

from tarry.errors import BadInput

Duration = int | float | str | timedelta
"""A duration as a user writes it."""

SECOND = 1_000_000
MILLISECOND = 1_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
FOREVER_US = 9999 * 366 * 86400 * SECOND
"""The longest duration: one more microsecond, and every moment would be beyond the year 9999."""
LAST_MOMENT_US = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""

_FLOAT_IS_EXACT_US = 2**32 * SECOND
"""Until 2106 a float of seconds is off by less than half a microsecond, and is rounded to the right one: half the time of a sum."""
_LEAST_EPOCH_S = 1_000_000_000
"""Of 2001: what is less is taken for a duration."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_UNITS = {"us": 1, "ms": MILLISECOND, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
_UNITS["w"] = 7 * _UNITS["d"]
_LONGEST_TEXT = 100
"""More digits are no duration, and Python refuses to convert thousands of them."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*", re.ASCII)
_PARTS = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)
_HINT = 'give seconds, a timedelta, or text such as "10m", "1h30m" or "PT10M"'
_TEXT_HINT = 'write seconds, or such as "10m", "1h30m" or "PT10M"'


def duration_us(value: Duration, what: str = "delay", *, minimum: int = 0) -> int:
    """The duration in whole microseconds; ``what`` is the argument's name in the ``BadInput`` that it raises."""
    if type(value) is int:
        us = value * SECOND
    elif isinstance(value, bool):
        raise BadInput(f"{what}: {value!r} is not a duration; {_HINT}.")
    elif isinstance(value, timedelta):
        us = value // _MICROSECOND
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{what}: {value!r} is not finite; {_HINT}.")
        us = round(value * SECOND) if abs(value) < FOREVER_US else FOREVER_US + 1
    elif isinstance(value, str):
        us = _parse(value.strip(), what)
    else:
        raise BadInput(f"{what}: {type(value).__name__} is not a duration; {_HINT}.")
    if us < 0:
        raise BadInput(f"{what}: {as_text(us)} is negative.")
    if us < minimum:
        raise BadInput(f"{what}: {_as_given(value)} is too short; it must be at least {as_text(minimum)}.")
    if us > FOREVER_US:
        raise BadInput(f"{what}: {_as_given(value)} reaches beyond the year 9999.")
    return us


def _as_given(value: Duration) -> str:
    return as_text(value // _MICROSECOND) if isinstance(value, timedelta) else repr(value)


def _parse(text: str, what: str) -> int:
    if len(text) > _LONGEST_TEXT:
        raise BadInput(f"{what}: {text[:40]!r}… has {len(text)} characters; {_TEXT_HINT}.")
    if _PARTS.fullmatch(text):
        return sum(_multiplied(number, _UNITS[unit]) for number, unit in _PART.findall(text))
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        return sum(_multiplied(number or "0", _UNITS[unit]) for number, unit in zip(iso.groups(), "wdhms", strict=True))
    try:
        number = float(text) if text.isascii() else math.nan
    except ValueError:
        number = math.nan
    if text.startswith("-") and (_PARTS.fullmatch(text[1:]) or _ISO.fullmatch(text[1:])):
        raise BadInput(f"{what}: {text[:40]} is negative.")
    if math.isfinite(number):
        return round(number * SECOND) if abs(number) < FOREVER_US else FOREVER_US + 1
    raise BadInput(f"{what}: {text[:40]!r} is not a duration; {_TEXT_HINT}.")


def _multiplied(number: str, unit: int) -> int:
    """The product; exact for whole numbers of any size, for floats are used only for fractions."""
    return int(number) * unit if number.isdigit() else round(float(number) * unit)


def moment_us(value: datetime, what: str = "at") -> int:
    """An aware datetime as microseconds since 1970. Naive ones are refused: their time zone is unknown."""
    if not isinstance(value, datetime):
        raise BadInput(f"{what}: {type(value).__name__} is not a datetime; {_hint_for(value)}.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise BadInput(f"{what}: {value.isoformat()} has no time zone; use datetime.now(timezone.utc) or a ZoneInfo.")
    us = (value - _EPOCH) // _MICROSECOND
    if us < 0:
        raise BadInput(f"{what}: {value.isoformat()} is before 1970.")
    return us


def _hint_for(value: object) -> str:
    if isinstance(value, str):
        return "convert it with datetime.fromisoformat()"
    if isinstance(value, (int, float)) and value >= _LEAST_EPOCH_S:
        return f"for seconds since 1970 use datetime.fromtimestamp({value!r}, timezone.utc)"
    return "for a duration use delay="


def as_datetime(us: int) -> datetime:
    """Microseconds since 1970 as an aware UTC datetime."""
    if 0 <= us < _FLOAT_IS_EXACT_US:
        return datetime.fromtimestamp(us / SECOND, timezone.utc)
    return _EPOCH + timedelta(microseconds=min(us, LAST_MOMENT_US))


def as_timedelta(us: int) -> timedelta:
    """Microseconds as a ``timedelta``."""
    return timedelta(microseconds=us)


def as_text(us: int) -> str:
    """A duration for people: ``1d 2h``, ``3m 20s``, ``1.5s``, ``12ms``."""
    if us < 0:
        return "-" + as_text(-us)
    if us < SECOND:
        return f"{us / MILLISECOND:.3g}ms" if us else "0s"
    if us < 60 * SECOND:
        return f"{us / SECOND:.3g}s"
    seconds = us // SECOND
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (seconds % 60, "s")]
    return " ".join([f"{n}{unit}" for n, unit in parts if n][:2])
