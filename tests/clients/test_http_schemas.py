"""Values of the library become JSON by one rule, and come back by the same: the service, its clients and the CLI use it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest

from tarry.values.rates import Rate
from tarry.verbs.guarded.guarded_context import GuardedStats
from tarry.verbs.jobs.job_values import Added
from tarry.verbs.jobs.stats import CheckReport, Histogram, Lateness, LimitStatus, Stats, TopicSettings
from tarry.verbs.locks.lock_values import LockState
from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement
from tarry.verbs.redisson.mapcache.map_values import MapStats
from tarry.wire import answers, topic_answers
from tarry.wire.endpoints import guarded_endpoints as guarded
from tarry.wire.endpoints import lock_endpoints as locks
from tarry.wire.redisson import map_endpoints as maps
from tarry.wire.redisson import queue_answers
from tarry.wire.schemas import Schema
from walked import cases

AT, TEXT = datetime(2027, 1, 15, 8, 30, tzinfo=timezone.utc), "2027-01-15T08:30:00Z"
SECOND = timedelta(seconds=1)
COUNTERS = "watching added popped finished released timed_out died too_late kicked deleted replaced refused repeated lost swept".split()
NUMBERS = {name: number for number, name in enumerate(COUNTERS)}
LATE = Lateness.of({20: 3, 44: 5, 60: 1})
VALUES: list[tuple[Schema[Any], Any, Any]] = [
    (
        topic_answers.STATS,
        Stats(
            "orders",
            AT,
            1,
            2,
            3,
            4,
            AT,
            None,
            None,
            LimitStatus("rate", AT),
            **NUMBERS,
            lateness=LATE,
            retrying=1,
            finished_kept=2,
            finished_lost=1,
            died_lately=3,
            last_died=AT,
        ),
        {
            "topic": "orders",
            "now": TEXT,
            "delayed": 1,
            "ready": 2,
            "reserved": 3,
            "dead": 4,
            "next_due": TEXT,
            "oldest_ready": None,
            "paused_until": None,
            "limited": {"reason": "rate", "until": TEXT},
            **NUMBERS,
            "lateness": {
                "count": 9,
                "p50_ms": 2.434,
                "p99_ms": 38.966,
                "max_ms": 38.966,
                "buckets": {"20": 3, "44": 5, "60": 1},
            },
            "retrying": 1,
            "finished_kept": 2,
            "finished_lost": 1,
            "died_lately": 3,
            "last_died": TEXT,
            "last_popped": None,
            "expired": 0,
            "damaged": 0,
            "due_in_1m": 0,
            "due_in_5m": 0,
            "due_in_15m": 0,
            "full": False,
            "not_added": 0,
            "held": 0,
            "pending_bytes": None,
            "max_pending": None,
            "max_pending_bytes": None,
            "held_back": 0,
            "can_go_since": None,
        },
    ),
    (
        topic_answers.HISTOGRAM,
        Histogram(AT, AT, 900 * SECOND, 0, (3, 0, 7), 2),
        {"now": TEXT, "start": TEXT, "width_ms": 900_000, "before": 0, "counts": [3, 0, 7], "after": 2},
    ),
    (
        topic_answers.SETTINGS,
        TopicSettings(60 * SECOND, None, None, Rate(100, 60 * SECOND), 5, None, 1.0005 * SECOND),
        {
            "ttr_ms": 60_000,
            "max_attempts": None,
            "keep_dead_ms": None,
            "rate": "100/1m",
            "burst": 5,
            "concurrency": None,
            "max_lateness_ms": 1000.5,
            "keep_finished_ms": None,
            "max_pending": None,
            "max_pending_bytes": None,
            "key_concurrency": None,
            "key_rate": None,
            "fair": False,
            "retry_holds_key": False,
        },
    ),
    (
        topic_answers.CHECK,
        CheckReport(15, ("a", "b"), 1),
        {"looked_at": 15, "faults": ["a", "b"], "leaving": 1, "schedules_leaving": 0},
    ),
    (
        guarded.GUARDED_STATS,
        GuardedStats(3, 1, AT, timedelta(microseconds=310)),
        {"size": 3, "overdue": 1, "next_due": TEXT, "lateness_ms": 0.31},
    ),
    (
        locks.LOCKS,
        locks.Locks([LockState("stock", True, "me:1", 2, 33, 29.5 * SECOND, None)], "1-0"),
        {
            "locks": [
                {
                    "lock": "stock",
                    "held": True,
                    "holder": "me:1",
                    "depth": 2,
                    "token": 33,
                    "remaining_ms": 29_500,
                    "waiting": None,
                }
            ],
            "cursor": "1-0",
        },
    ),
    (locks.LOCKS, locks.Locks([]), {"locks": []}),
    (
        answers.ADDED_JOBS,
        [Added("7", True, "delayed", AT)],
        {"jobs": [{"id": "7", "is_new": True, "state": "delayed", "due": TEXT}]},
    ),
    (answers.WERE_MANY, ["dead", None], {"was": ["dead", None]}),
    (answers.COUNT, 3, {"count": 3}),
    (topic_answers.PAUSED, None, {"until": None}),
    (
        queue_answers.POISON,
        [PoisonElement(b"\0\1", "truncated")],
        {"elements": [{"raw_base64": "AAE=", "reason": "truncated"}]},
    ),
    (
        queue_answers.QUEUE_STATS,
        QueueStats("Later", AT, 2, 1, 0, 0, 0, 2, AT - 0.0005 * SECOND, "dLc0"),
        {
            "queue": "Later",
            "now": TEXT,
            "waiting": 2,
            "overdue": 1,
            "ready": 0,
            "poison": 0,
            "leaving": 0,
            "movers": 2,
            "next_due": "2027-01-15T08:29:59.999500Z",
            "oldest_overdue_ms": 0.5,
            "format": "dLc0",
        },
    ),
]


@cases(("schema", "value", "data"), VALUES, ids=lambda one: getattr(getattr(one, "model", 0), "__name__", ""))
def test_a_value_becomes_json_and_comes_back(schema: Schema[Any], value: object, data: object) -> None:
    text = msgspec.json.encode(schema.dump(value))
    assert json.loads(text) == data
    assert list(json.loads(text)) == list(data)  # type: ignore[call-overload]  # and in this order
    assert schema.decode(text) == value


def test_what_the_reader_knows_is_not_in_the_json() -> None:
    now = MapStats("prices", AT, 10, 1, None, 100, "LRU", False, 2)
    text = msgspec.json.encode(maps.MAP_STATS.dump(now))
    assert b"prices" not in text
    assert maps.MAP_STATS.decode(text, "prices") == now


def test_an_answer_of_another_form_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="counts"):
        topic_answers.HISTOGRAM.decode(
            b'{"now": "2027-01-15T08:30:00Z", "start": "2027-01-15T08:30:00Z", "width_ms": 1, "before": 0, "after": 0}'
        )
