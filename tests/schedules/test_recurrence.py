"""When occurrences are: through both changes of the clock, leap days, and time zones whose rules change."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from tarry.errors import BadInput
from tarry.values.durations import SECOND, as_datetime
from tarry.verbs.schedules.fire import occurrence_stamp, occurrences
from tarry.verbs.schedules.recurrences import (
    Recurrence,
    decode,
    last_occurrences,
    make_recurrence,
    next_occurrence,
    next_occurrences,
)
from walked import cases

BERLIN = ZoneInfo("Europe/Berlin")
DAY = 86400 * SECOND


def us(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(timezone.utc).timestamp()) * SECOND


def comes(cron: str, tz: str, after: str, n: int) -> list[str]:
    """The next n occurrences, in UTC, to the minute."""
    made, at, found = make_recurrence(None, cron, tz), us(after), []
    for _ in range(n):
        at = next_occurrence(made, at) or 0
        found.append(as_datetime(at).strftime("%m-%d %H:%M"))
    return found


def test_cron_follows_local_time_through_the_year() -> None:
    assert comes("0 9 * * 1-5", "Europe/Berlin", "2026-03-27T12:00Z", 2) == ["03-30 07:00", "03-31 07:00"]
    assert comes("0 9 * * 1-5", "Europe/Berlin", "2026-10-23T12:00Z", 2) == ["10-26 08:00", "10-27 08:00"]


def test_an_occurrence_in_the_skipped_spring_hour_comes_right_after_it() -> None:
    assert comes("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00Z", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_an_occurrence_in_the_repeated_autumn_hour_comes_once() -> None:
    assert comes("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00Z", 3) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


@pytest.mark.parametrize("after", ["2026-03-28T23:00Z", "2026-10-24T22:00Z"])
def test_frequent_occurrences_keep_their_interval_through_dst_changes(after: str) -> None:
    made, at, moments = make_recurrence(None, "*/20 * * * *", "Europe/Berlin"), us(after), []
    for _ in range(24):
        at = next_occurrence(made, at) or 0
        moments.append(at)
    assert {b - a for a, b in pairwise(moments)} == {20 * 60 * SECOND}


def test_cron_finds_the_29th_of_february() -> None:
    made = make_recurrence(None, "0 0 29 2 *", "UTC")
    first = next_occurrence(made, us("2026-01-01T00:00Z")) or 0
    assert as_datetime(first) == datetime(2028, 2, 29, tzinfo=timezone.utc)
    assert as_datetime(next_occurrence(made, first) or 0).year == 2032


def test_cron_follows_changed_time_zone_rules() -> None:
    """Pyongyang moved its clocks in 2018, Mexico gave daylight saving up in 2022, Cairo took it up again in 2023."""
    assert comes("0 12 * * *", "Asia/Pyongyang", "2018-05-03T12:00Z", 2) == ["05-04 03:30", "05-05 03:00"]
    assert comes("0 12 1 7 *", "America/Mexico_City", "2021-08-01T00:00Z", 2) == ["07-01 17:00", "07-01 18:00"]
    assert comes("0 12 1 7 *", "Africa/Cairo", "2021-08-01T00:00Z", 2) == ["07-01 10:00", "07-01 09:00"]


@pytest.mark.slow
@cases("cron", ["30 2 * * *", "*/7 * * * *", "0 9 * * 1-5", "0 0 29 2 *", "59 23 L * *", "15 1-3 * * *"])
@cases("tz", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
def test_past_occurrences_equal_those_found_going_forward(cron: str, tz: str) -> None:
    """So it does not matter how late somebody wakes, nor how often: the occurrences are the same."""
    rng = random.Random(cron + tz)
    made, start = make_recurrence(None, cron, tz), us("2026-01-01T00:00Z") + rng.randrange(600 * DAY)
    for begin in (start, us("2026-03-28T20:00Z"), us("2026-10-24T20:00Z"), us("2026-10-31T20:00Z")):
        walked, at = [], begin
        while len(walked) < 12:
            at = next_occurrence(made, at) or 0
            walked.append(at)
        assert last_occurrences(made, begin, walked[-1], 50)[0] == walked
        assert last_occurrences(made, begin, walked[-1] - 1, 50)[0] == walked[:-1]
        assert last_occurrences(made, walked[3], walked[-1] + 1, 3)[0] == walked[-3:]


def test_an_interval_counts_from_the_previous_occurrence() -> None:
    made = make_recurrence("5m", None, "UTC")
    begin = us("2026-01-01T00:00Z") + 7
    assert next_occurrence(made, begin) == begin + 300 * SECOND
    found, before = last_occurrences(made, begin, begin + 10**6 * 300 * SECOND + 5, 3)
    assert found == [begin + k * 300 * SECOND for k in (999_998, 999_999, 10**6)]
    assert before == 10**6 - 3
    assert last_occurrences(made, begin, begin, 5) == ([], 0)


def test_next_occurrences_continue_from_a_known_one() -> None:
    often, monday = make_recurrence("5m", None, "UTC"), make_recurrence(None, "0 9 * * 1", "UTC")
    one = us("2026-01-05T09:00Z")
    for made, step in ((often, 300 * SECOND), (monday, 7 * DAY)):
        assert next_occurrences(made, one, one - 1, 3) == [one, one + step, one + 2 * step]
        assert next_occurrences(made, one, one - 30 * step, 1) == [one], "none before it"
        assert next_occurrences(made, one, one + 10 * step, 2) == [one + 11 * step, one + 12 * step], "after, not at"
        assert next_occurrences(made, one, one + 10 * step - 1, 1) == [one + 10 * step]


def test_a_recurrence_survives_storage() -> None:
    for made in (make_recurrence("5m", None, "UTC"), make_recurrence(None, " 0  9 * * 1-5 ", "Europe/Berlin")):
        assert decode(made.encode()) == made
    assert make_recurrence(None, "0 9  * * *", "UTC").encode() == make_recurrence(None, "0 9 * * *", "UTC").encode()


@cases(
    ("every", "cron", "tz", "said"),
    [
        (None, None, "UTC", "one of the two"),
        (5, "* * * * *", "UTC", "one of the two"),
        (0, None, "UTC", "too short"),
        (None, "bad", "UTC", "minute hour day"),
        (None, "61 * * * *", "UTC", "minute"),
        (None, "0 0 30 2 *", "UTC", "day-of-month"),
        (None, " @Daily", "UTC", r'write "0 0 \* \* \*"'),
        (None, 5, "UTC", "not a str"),
        (None, "0 9 * * *", "Europe/Nowhere", "no time zone"),
        (None, "0 9 * * *", "../../etc/passwd", "no time zone"),
        (None, "0 9 * * *", 7, "no time zone"),
    ],
)
def test_nonsensical_options_are_refused(every: object, cron: object, tz: object, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        make_recurrence(every, cron, tz)  # type: ignore[arg-type]


# ── what was missed ──────────────────────────────────────────────────────────────────────────────────────────────────

HOURLY = Recurrence(3600 * SECOND)
HOUR = 3600 * SECOND


def test_an_occurrence_on_time_gets_its_job_under_every_policy() -> None:
    for missed in ("skip", "once", "all"):
        assert occurrences(HOURLY, missed, 0, HOUR + 59 * SECOND) == ([HOUR], HOUR, 0)


def test_missed_occurrences_are_skipped_merged_or_all_added() -> None:
    late = 5 * HOUR + 61 * SECOND
    assert occurrences(HOURLY, "skip", 0, late) == ([], 5 * HOUR, 5)
    assert occurrences(HOURLY, "once", 0, late) == ([5 * HOUR], 5 * HOUR, 4)
    assert occurrences(HOURLY, "all", 0, late) == ([k * HOUR for k in range(1, 6)], 5 * HOUR, 0)


def test_at_most_a_thousand_missed_occurrences_are_added_some_at_once() -> None:
    now = 5000 * HOUR
    found, after, skipped = occurrences(HOURLY, "all", 0, now, 100)
    assert (found[0], len(found), skipped) == (4001 * HOUR, 100, 4000)
    assert occurrences(HOURLY, "all", after, now, 100)[0][0] == 4101 * HOUR


def test_a_time_computed_by_older_zone_rules_is_no_occurrence() -> None:
    """The stored one was an hour too early: nothing comes before its time, and nothing is lost."""
    made = make_recurrence(None, "0 9 * * *", "UTC")
    begin = us("2026-01-01T09:00Z")
    assert occurrences(made, "once", begin, us("2026-01-02T08:00Z")) == ([], begin, 0)
    assert occurrences(made, "once", begin, us("2026-01-02T09:00Z"))[0] == [us("2026-01-02T09:00Z")]


def test_an_occurrence_becomes_part_of_an_id() -> None:
    assert occurrence_stamp(us("2026-03-29T07:00Z")) == "2026-03-29T07:00:00Z"
    assert occurrence_stamp(us("2026-03-29T07:00Z") + 5) == "2026-03-29T07:00:00.000005Z"
