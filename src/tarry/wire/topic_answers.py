"""Answers about topics."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from tarry.verbs.jobs.dead_groups import DeadGroup, DeadGroups
from tarry.verbs.jobs.stats import (
    CheckReport,
    Histogram,
    KeyStats,
    Lateness,
    LimitStatus,
    MinuteCounts,
    Stats,
    TopicSettings,
)
from tarry.verbs.workers import WorkerInfo
from tarry.wire.schemas import Schema, field_schema, model_schema, schema_of

TOPIC_NAMES: Schema[list[str]] = field_schema(
    "TopicNames", "topics", list[str], "By name. A hint: a purged topic stays in it."
)
WORKER = model_schema(WorkerInfo)
WORKERS: Schema[list[WorkerInfo]] = field_schema(
    "Workers", "workers", list[WorkerInfo], "By name. A killed worker is listed for up to 30 s."
)
ASKED: Schema[bool] = field_schema("WorkerAsked", "alive", bool, "Whether the worker is alive; only then it is asked.")
LATENESS = schema_of(
    Lateness,
    "LatenessShown",
    "How late jobs were handed out since the topic began; percentiles are right to within a fifth.",
)
LIMIT_STATUS = schema_of(LimitStatus, "LimitStatusShown", "``until`` null: until ``resume``.")
STATS = schema_of(Stats, "TopicStats", "A topic at one moment. A reservation whose TTR is over counts as ready.")
KEY_STATS = schema_of(
    KeyStats,
    "KeyStatsShown",
    "The jobs of one key at one moment; dead and finished ones are not counted by key.",
)
BUSIEST_KEYS: Schema[tuple[KeyStats, ...]] = field_schema(
    "BusiestKeys", "keys", tuple[KeyStats, ...], "The one with the most jobs first."
)
HISTOGRAM = schema_of(
    Histogram, "TopicHistogram", "How many jobs are due when. Bucket i spans ``start + i × width_ms``."
)
MINUTE_COUNTS = schema_of(
    MinuteCounts, "MinuteCountsShown", "The numbers of one minute. ``failed`` counts attempts, the others jobs."
)
THROUGHPUT: Schema[tuple[MinuteCounts, ...]] = field_schema(
    "TopicThroughput",
    "minutes",
    tuple[MinuteCounts, ...],
    "The oldest first; minutes in which nothing happened are left out.",
)
SETTINGS = schema_of(
    TopicSettings,
    "TopicSettings",
    "The topic's settings: for its jobs, and for all of them together. ``null``: no limit of attempts, dead jobs kept forever.",
)
DEAD_GROUP = schema_of(
    DeadGroup,
    "DeadGroupShown",
    "Dead jobs with the same task, error and place in the code; ``samples``: the ids of some.",
)
DEAD_GROUPS = schema_of(
    DeadGroups,
    "DeadGroupsShown",
    "The largest group first. ``scanned`` of ``dead`` jobs were read; without ``cursor`` they were the last.",
    omit_defaults=True,
)
CHECK = schema_of(
    CheckReport,
    "CheckReport",
    "``faults`` is empty when every job is in exactly one place. ``leaving``, ``schedules_leaving``: how many a running or\n"
    "interrupted move is moving to another topic.",
)
PAUSED: Schema[datetime | None] = field_schema("Paused", "until", datetime | None, "``null``: until ``resume``.")
PARTITIONS: Schema[int] = field_schema("PartitionsShown", "partitions", int, "1: a plain topic.")


class MigratedShown(Struct, kw_only=True):
    """``refused``: their ids are taken there; ``reserved``: held by a consumer; ``done`` false: there is more, ask again.

    ``schedules``, ``schedules_refused``: the same of schedules; ``settings``: those that were copied. ``poison``: how many elements of a
    queue could not become a body, and were set aside in its poison.
    """

    moved: int
    refused: int = 0
    reserved: int = 0
    schedules: int = 0
    schedules_refused: int = 0
    settings: list[str] = field(default_factory=list)
    poison: int = 0
    done: bool


MIGRATED = model_schema(MigratedShown)
