"""The pictures and the words, as pure functions."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from tarry.errors import BadInput
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.charts import axes, timeline
from tarry.programs.dashboard.charts.timeline import bars_path
from tarry.programs.dashboard.charts.topic_charts import EDGES_S, heat, next_hour, rates, row_of
from tarry.programs.dashboard.page_request import parse_moment, return_path
from tarry.verbs.jobs.stats import Histogram, MinuteCounts
from walked import cases

NOW = datetime(2027, 1, 15, 8, 0, 0, 123_456, timezone.utc)


@cases(
    ("seconds", "told"),
    [
        (0, "0 s"),
        (0.00042, "0.42 ms"),
        (0.012, "12 ms"),
        (0.9, "900 ms"),
        (0.9996, "1 s"),
        (1.5, "1.5 s"),
        (9.96, "10 s"),
        (59.6, "1 m"),
        (200, "3 m 20 s"),
        (7500, "2 h 5 m"),
        (7200, "2 h"),
        (7201, "2 h"),
        (86400 * 400, "1 y 35 d"),
        (-5, "−5 s"),
    ],
)
def test_time_spans_are_formatted_for_people(seconds: float, told: str) -> None:
    assert filters.span(seconds) == told
    assert filters.span(timedelta(seconds=seconds)) == told


@pytest.mark.parametrize(
    ("n", "told"), [(0, "0"), (99_999, "99,999"), (123_456, "123 k"), (1_234_567, "1.23 M"), (2.5e9, "2.5 G")]
)
def test_large_counts_are_shortened(n: int, told: str) -> None:
    assert filters.count(n) == told


@pytest.mark.parametrize(("rate", "told"), [(None, "–"), (0, "0/s"), (98, "98/s"), (0.5, "30/min"), (0.001, "3.6/h")])
def test_rates_use_a_suitable_unit(rate: float | None, told: str) -> None:
    assert filters.rate(rate) == told


def test_control_characters_are_spelled_out() -> None:
    assert filters.plain("a\u202eb") == "a⟨RIGHT-TO-LEFT OVERRIDE⟩b"
    assert filters.plain("a\u200bb\x1b[31m\n") == "a⟨ZERO WIDTH SPACE⟩b⟨U+001B⟩[31m⟨U+000A⟩"
    assert filters.lines("a\n\tb\x00") == "a\n\tb⟨U+0000⟩"
    assert filters.plain("<测试> &") == "<测试> &"


@cases(
    ("text", "at"),
    [
        ("now", NOW),
        ("10m ago", NOW - timedelta(minutes=10)),
        ("-10m", NOW - timedelta(minutes=10)),
        ("in 1h", NOW + timedelta(hours=1)),
        ("+1h30m", NOW + timedelta(hours=1.5)),
        ("2027-01-15T08:00:00Z", NOW.replace(microsecond=0)),
        ("2027-01-15T09:00:00+01:00", NOW.replace(microsecond=0)),
        ("1800000000000", NOW.replace(microsecond=0)),
        ("", None),
    ],
)
def test_times_are_parsed_as_people_write_them(text: str, at: datetime | None) -> None:
    assert parse_moment(text, NOW, "after") == at


@cases(
    "text",
    ["soon", "9999999d ago", "in", "--5m", "<script>", "9" * 15, "1\n2", "9" * 5000 + "s", "0001-01-01T00:00+01:00"],
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="after"):
        parse_moment(text, NOW, "after")


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "https://evil.example", "", "topic", "/a\r\nset-cookie: x=1"]
)
def test_a_return_path_never_leaves_the_site(path: str) -> None:
    assert return_path("/tarry", path) == "/tarry/"


def test_a_return_path_stays_below_the_mount_path() -> None:
    assert return_path("/tarry", "/topic?topic=a") == "/tarry/topic?topic=a"


def test_bars_do_not_move_as_time_passes() -> None:
    for step in (0.5, 30.0, 900.0, 86400.0):
        a, b = axes.floor_to_step(NOW, step), axes.floor_to_step(NOW + timedelta(microseconds=1), step)
        assert a == b <= NOW < a + timedelta(seconds=step)
    assert axes.step_of(3900, 140) == 30
    assert axes.step_of(1e12, 140) > 364 * 86400


def test_axis_marks_are_whole_steps_within_the_range() -> None:
    found = axes.marks(NOW, NOW + timedelta(hours=1), 7)
    assert [at.strftime("%H:%M:%S") for at in found] == [
        "08:10:00",
        "08:20:00",
        "08:30:00",
        "08:40:00",
        "08:50:00",
        "09:00:00",
    ]
    assert axes.marks(found[0], found[-1], 7)[-1] == found[-1]
    assert [axes.label_of(found[0] + timedelta(milliseconds=7), span_s) for span_s in (5, 3600)] == [
        "08:10:00.007",
        "08:10",
    ]


def test_a_bar_is_one_segment_of_an_svg_path() -> None:
    assert bars_path([0, 2, 0], lambda n: n / 2) == "M1.08 100v-100.0h0.84v100.0z"


def test_the_forecast_estimates_the_worst_lateness() -> None:
    found = next_hour([60] * 10 + [0] * 50, 0, 30.0)
    assert found.coming == 600
    assert found.worst_s == 600.0, "300 wait after ten minutes, which takes ten more"
    assert found.clear_s == 20 * 60
    assert found.left == 0


def test_a_backlog_ends_after_its_jobs_are_due() -> None:
    found = next_hour([0, 0, 8] + [0] * 57, 0, 4.0)
    assert (found.worst_s, found.clear_s) == (60.0, 4 * 60), "not in the first minute, in which none waits"


def test_without_a_known_rate_there_is_no_forecast() -> None:
    found = next_hour([1] * 60, 5, None)
    assert (found.managed, found.line, found.worst_s, found.left) == (None, None, 0.0, 65)


def test_a_sufficient_rate_leaves_no_job_waiting() -> None:
    found = next_hour([10] * 60, 0, 10.0)
    assert (found.waiting, found.worst_s, found.clear_s) == ("", 0.0, 60.0)


def test_a_lateness_bucket_maps_to_a_row() -> None:
    assert [row_of(bucket) for bucket in (0, 38, 39)] == [0, 0, 1], "the last ends at 1022 µs"
    assert row_of(200) == len(EDGES_S)
    begins = [bucket for bucket in range(1, 200) if row_of(bucket) > row_of(bucket - 1)]
    assert begins == [39, 46, 53, 59, 66, 72, 79, 86, 93, 99, 103, 112, 118, 126, 137, 145], "after 1 ms, 3 ms, … 1 day"


def test_heat_map_shades_follow_the_counts() -> None:
    found = heat([{}, {0: 1}, {0: 1000, 60: 3}])
    assert (found.columns, found.total) == (3, 1004)
    assert found.levels[0].startswith("M1.06 "), "one job: light, in the second column"
    assert found.levels[-1].startswith("M2.06 ")
    assert [sum(column) for column in found.counts] == [0, 1, 1003]


class Counted:
    """Jobs by their due times, in seconds from now."""

    def __init__(self, *due_s: float) -> None:
        self.due = [NOW + timedelta(seconds=at) for at in due_s]

    async def histogram(self, *, start: object = 0, span: object = 0, buckets: int = 1, past: object = 0) -> Histogram:
        assert isinstance(start, datetime)
        assert past == 0
        width = timedelta(seconds=span / buckets) if isinstance(span, (int, float)) else span / buckets  # type: ignore[operator]
        edges = [start + i * width for i in range(buckets + 1)]
        counts = [sum(a <= at < b for at in self.due) for a, b in pairwise(edges)]
        before, after = sum(at < edges[0] for at in self.due), sum(at >= edges[-1] for at in self.due)
        return Histogram(NOW, start, width, before, tuple(counts), after)


def test_only_the_late_part_of_the_current_bar_is_red() -> None:
    line = asyncio.run(timeline.window_timeline(Counted(-0.1, 3000, 3000, 3000), "week", NOW))
    (plot,) = line.plots
    assert (plot.total, line.top, plot.counts[6]) == (4, 4, 4)
    assert plot.late == f"M6.08 100v-{100 / 4:.1f}h0.84v{100 / 4:.1f}z", "a quarter of it"
    assert plot.due == "M6.08 100v-100.0h0.84v100.0z", "behind it, all of it"


def test_a_range_in_the_past_is_entirely_late() -> None:
    line = asyncio.run(
        timeline.zoomed_timeline(Counted(-50, 5), NOW - timedelta(seconds=60), NOW - timedelta(seconds=30))
    )
    (plot,) = line.plots
    assert (plot.due, plot.now, line.after) == ("", None, 1)
    assert plot.late


def test_a_time_range_can_be_moved_and_widened() -> None:
    line = asyncio.run(
        timeline.zoomed_timeline(
            Counted(), NOW.replace(microsecond=0), NOW.replace(microsecond=0) + timedelta(seconds=60)
        )
    )
    (plot,) = line.plots
    start = int(plot.start.timestamp() * 1000)
    assert timeline.shifted(plot, 0.5) == {"from": str(start + 30_000), "to": str(start + 90_000)}
    assert timeline.widened(plot, 1) == {"from": str(start - 30_000), "to": str(start + 90_000)}
    assert timeline.widened(plot, 0) == {"from": str(start + 29_900), "to": str(start + 30_100)}, "not to nothing"


def test_the_last_day_has_bars_beside_each_other_for_each_counter_that_moved() -> None:
    this = NOW.replace(second=0, microsecond=0)
    first, second = MinuteCounts(this - timedelta(hours=12), 30, 0, 0, 0), MinuteCounts(this, 15, 60, 0, 3)
    drawn = rates([first, second], NOW)
    assert [(line.name, line.total) for line in drawn.lines] == [("added", 45), ("finished", 60), ("died", 3)]
    assert (drawn.top, drawn.span) == (4, "day"), "sixty in a quarter of an hour"
    added, finished, died = (line.path for line in drawn.lines)
    assert added == "M47.080 100v-50.0h0.280V100zM95.080 100v-25.0h0.280V100z"
    assert finished == "M95.360 100v-100.0h0.280V100z", "it begins where added ends"
    assert died == "M95.640 100v-5.0h0.280V100z"
    assert rates([], NOW).lines == ()


@pytest.mark.parametrize(
    ("known", "span"), [("0", "hour"), ("59", "hour"), ("60", "six hours"), ("359", "six hours"), ("360", "day")]
)
def test_the_first_day_is_as_wide_as_what_is_known(known: str, span: str) -> None:
    this = NOW.replace(second=0, microsecond=0)
    minutes = [MinuteCounts(this - timedelta(minutes=int(known)), 1, 0, 0, 0), MinuteCounts(this, 1, 0, 0, 1)]
    drawn = rates(minutes, NOW)
    assert (drawn.span, drawn.lines[0].total) == (span, 2)
    assert drawn.lines[0].path.startswith("M0.") == (known in ("59", "359"))
    assert rates(minutes, NOW, "hour").lines[-1].total == 1
    assert rates(minutes, NOW, "day").span == "day"
    few = rates([MinuteCounts(this, 10_000, 0, 0, 1)], NOW).lines[-1].path
    assert "v-1.5h" in few, "one death is seen beside ten thousand jobs"


def test_a_week_has_columns_of_two_whole_hours() -> None:
    now = NOW.replace(minute=20)
    hour = now.replace(minute=0, second=0, microsecond=0)
    minutes = [
        MinuteCounts(hour - timedelta(hours=166), 1, 0, 0, 0),
        MinuteCounts(hour - timedelta(hours=50), 6, 2, 0, 0),
        MinuteCounts(hour - timedelta(hours=49), 0, 3, 0, 0),
        MinuteCounts(now, 0, 5, 0, 0),
    ]
    drawn = rates(minutes, now, "week")
    assert (drawn.span, drawn.columns, drawn.seconds) == ("week", 84, 7 * 86400)
    assert [(line.name, line.total) for line in drawn.lines] == [("added", 7), ("finished", 10)]
    assert drawn.top == 6 / 120
    assert rates(minutes, now).span == "day", "a week is shown when it is asked for"
    assert drawn.most == "3 per hour", "none is 0 per minute"
    assert rates(minutes[:1], now, "week").most == "0.5 per hour"
    assert rates([MinuteCounts(hour, 40, 0, 0, 0)], now, "hour").most == "40 per minute"
