"""The history of 24 hours, and how much memory it may take."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timedelta, timezone

from tarry.programs.dashboard.history import OVERHEAD, RETENTION_S, History
from tarry.verbs.jobs.stats import Lateness, Stats

START = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)


def stats(at_s: float, late: dict[int, int] | None = None, **counts: int) -> Stats:
    known = {field.name: 0 for field in fields(Stats)}
    lateness = Lateness.of(late or {})
    none = {"next_due": None, "oldest_ready": None, "paused_until": None}
    told = {"topic": "orders", "now": START + timedelta(seconds=at_s), "lateness": lateness, "popped": lateness.count}
    return Stats(**{**known, **none, **told, **counts})  # type: ignore[arg-type]


def test_rates_are_computed_from_counter_differences() -> None:
    history = History()
    for n in range(7):
        history.record(stats(10 * n, added=100 * n, finished=50 * n))
    assert history.rate("added", 60) == 10
    assert history.rate("finished", 20) == 5
    assert history.rate("added", 3600) == 10, "only as far back as is known"


def test_one_sample_gives_no_rates() -> None:
    history = History()
    assert history.rate("added", 60) is None
    history.record(stats(0, added=5))
    assert history.rate("added", 60) is None
    assert history.lateness(60).count == 0


def test_lateness_covers_the_requested_period() -> None:
    history = History()
    history.record(stats(0))
    history.record(stats(10, {0: 5}))
    history.record(stats(1000, {0: 5, 80: 2}))
    assert history.lateness(2000).count == 7
    assert history.lateness(60).buckets == {80: 2}
    columns = history.columns(1000, 10)
    assert sum(column.get(80, 0) for column in columns) == 2
    assert columns[0] == {0: 5}


def test_samples_off_the_column_grid_leave_no_gaps() -> None:
    history = History()
    history.record(stats(0))
    for n in range(1, 61):
        history.record(stats(10.07 * n, {30: 100 * n}))
    columns = history.columns(600, 60)
    assert all(90 <= column.get(30, 0) <= 110 for column in columns), columns
    assert sum(column[30] for column in columns) >= 5900


def test_the_best_minute_is_the_highest_finish_rate() -> None:
    history = History()
    for n in range(30):
        history.record(stats(10 * n, finished=20 * n if n < 12 else 240 + (n - 12)))
    best = history.best_minute(3600)
    assert best is not None
    assert 100 <= best <= 121


def test_an_idle_topic_uses_no_memory() -> None:
    history = History()
    for n in range(1000):
        history.record(stats(10 * n, {3: 7}, added=9))
    assert history.bytes == 0


def test_history_keeps_a_day_in_about_a_megabyte_per_busy_topic() -> None:
    history = History()
    for n in range(9000):
        history.record(stats(10 * n, dict.fromkeys(range(30, 40), n), added=n))
    steps = list(history.since(0))
    assert steps[0].end - steps[-1].end <= RETENTION_S
    assert len(steps) in range(8639, 8642)
    assert history.bytes == len(steps) * (36 + 5 * 10 + OVERHEAD) < 1_300_000
    history.drop_oldest()
    assert len(list(history.since(0))) == len(steps) - 1


def test_a_server_restart_gives_no_negative_rate() -> None:
    history = History()
    history.record(stats(0, {0: 100}, added=100, finished=90))
    history.record(stats(10, added=1))
    history.record(stats(20, added=3))
    assert [step.added for step in history.since(0)] == [2]
