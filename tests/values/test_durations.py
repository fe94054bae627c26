"""The ways to write durations and moments, and how they are printed."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.errors import BadInput
from tarry.values.durations import (
    FOREVER_US,
    LAST_MOMENT_US,
    as_datetime,
    as_text,
    as_timedelta,
    duration_us,
    moment_us,
)
from walked import cases

MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
WRITTEN: list[tuple[Any, int]] = [
    (0, 0),
    (1, 1_000_000),
    (0.000001, 1),
    (0.1, 100_000),
    (1.0000004, 1_000_000),
    (1.0000006, 1_000_001),
    (-0.0, 0),
    (timedelta(microseconds=1), 1),
    (timedelta(days=3652), 3652 * DAY),
    ("0", 0),
    ("10", 10_000_000),
    ("1.5", 1_500_000),
    (" 10 s ", 10_000_000),
    ("1us", 1),
    ("1ms", 1000),
    ("1s", 1_000_000),
    ("10m", 10 * MINUTE),
    ("1h30m", HOUR + 30 * MINUTE),
    ("1h 30m", HOUR + 30 * MINUTE),
    ("1w2d", 9 * DAY),
    ("1.5h", 90 * MINUTE),
    ("0.1s", 100_000),
    ("PT10M", 10 * MINUTE),
    ("P1DT2H3M4.5S", DAY + 2 * HOUR + 3 * MINUTE + 4_500_000),
    ("P1W", 7 * DAY),
    ("9007199254740993us", 9_007_199_254_740_993),  # 2^53 + 1: no float on the way
    (2**31, 2**31 * 1_000_000),
]
REFUSED: list[Any] = [
    None, "", " ", "s", "10x", "10 10", "m10", "1h-30m", "-1", "-1s", "P", "PT", "1m30", "0x10", "1e400", "inf", "nan",
    "10年", "１０m", "1０s", "PT１０M", "１０", "١٠", "1\u2003s", -1, -1e-3, float("nan"), float("inf"), True, False, b"10", [1], timedelta(microseconds=-1), 1e300,
    timedelta.max * 1 if timedelta.max.days > 9999 * 366 else 10**18, 10**30, "999999999w", "9" * 5000 + "s", "9" * 5000, f"P{'9' * 5000}D", "9" * 400 + ".5s", f"PT{'9' * 400}.5S",
]  # fmt: skip


@cases(("value", "us"), WRITTEN, ids=repr)
def test_a_duration_is_converted_to_microseconds(value: Any, us: int) -> None:
    assert duration_us(value) == us
    assert type(duration_us(value)) is int


@cases("value", REFUSED, ids=repr)
def test_an_invalid_duration_is_refused_by_name(value: Any) -> None:
    with pytest.raises(BadInput, match=r"^pause: "):
        duration_us(value, "pause")


def test_a_duration_that_is_too_short_is_refused_with_the_minimum() -> None:
    assert duration_us(0.001, "ttr", minimum=1000) == 1000
    with pytest.raises(BadInput, match="at least 1ms"):
        duration_us(0, "ttr", minimum=1000)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=9999 * 366)))
def test_a_timedelta_round_trips_to_the_microsecond(value: timedelta) -> None:
    assert as_timedelta(duration_us(value)) == value
    assert duration_us(f"{duration_us(value)}us") == duration_us(value)


@given(st.integers(0, FOREVER_US // 1_000_000))
def test_whole_seconds_are_exact_at_any_size(seconds: int) -> None:
    assert duration_us(seconds) == duration_us(str(seconds) + "s") == seconds * 1_000_000


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.timezones()))  # noqa: DTZ001  # the strategy adds zones
def test_a_datetime_round_trips_in_utc(value: datetime) -> None:
    try:
        us = moment_us(value)
    except BadInput:
        assert value.timestamp() < 0
        return
    assert as_datetime(us) == value.astimezone(timezone.utc) or us > LAST_MOMENT_US
    assert as_datetime(us).tzinfo is timezone.utc


def test_the_same_time_in_two_zones_is_equal() -> None:
    utc = datetime(2027, 3, 28, 1, 0, tzinfo=timezone.utc)
    assert moment_us(utc) == moment_us(utc.astimezone(ZoneInfo("Europe/Berlin"))) == 1_806_195_600_000_000


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (datetime(2027, 1, 1), "has no time zone"),  # noqa: DTZ001
        (datetime(1969, 12, 31, tzinfo=timezone.utc), "before 1970"),
        (60, "for a duration use delay="),
        (1_800_000_000, r"use datetime\.fromtimestamp\(1800000000, timezone\.utc\)"),
        ("2027-01-01", "not a datetime"),
        (None, "not a datetime"),
    ],
)
def test_an_invalid_time_is_refused(value: Any, why: str) -> None:
    with pytest.raises(BadInput, match=f"^at: .*{why}"):
        moment_us(value)


def test_a_score_past_the_year_9999_is_shown_as_the_last_moment() -> None:
    assert as_datetime(LAST_MOMENT_US + 31).year == 9999


@cases(
    ("us", "text"),
    [
        (0, "0s"),
        (1, "0.001ms"),
        (12_000, "12ms"),
        (999_000, "999ms"),
        (1_500_000, "1.5s"),
        (59_000_000, "59s"),
        (200_000_000, "3m 20s"),
        (3 * HOUR, "3h"),
        (26 * HOUR + 1_000_000, "1d 2h"),
        (-200_000_000, "-3m 20s"),
    ],
)
def test_a_duration_is_formatted_for_people(us: int, text: str) -> None:
    assert as_text(us) == text
