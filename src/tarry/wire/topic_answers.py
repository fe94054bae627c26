"""Answers about topics."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from tarry.verbs.jobs.dead_groups import DeadGroup, DeadGroups
from tarry.verbs.jobs.stats import CheckReport, Histogram, Lateness, LimitStatus, MinuteCounts, Stats, TopicSettings
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
LIMITED = schema_of(LimitStatus, "LimitedShown", "``until`` null: until ``resume``.")
STATS = schema_of(Stats, "TopicStats", "A topic at one moment. A reservation whose TTR is over counts as ready.")
HISTOGRAM = schema_of(
    Histogram, "TopicHistogram", "How many jobs are due when. Bucket i spans ``start + i × width_ms``."
)
MINUTE = schema_of(
    MinuteCounts, "MinuteShown", "The numbers of one minute. ``failed`` counts attempts, the others jobs."
)
THROUGHPUT: Schema[tuple[MinuteCounts, ...]] = field_schema(
    "TopicThroughput",
    "minutes",
    tuple[MinuteCounts, ...],
    "The oldest first; minutes in which nothing happened are left out.",
)
DEFAULTS = schema_of(
    TopicSettings,
    "TopicDefaults",
    "The defaults of the topic's jobs. ``null``: no limit of attempts, dead jobs kept for ever.",
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
    "TopicCheck",
    "``faults`` is empty when every job is in exactly one place. ``leaving``, ``schedules_leaving``: how many a running or\n"
    "interrupted move is moving to another topic.",
)
PAUSED: Schema[datetime | None] = field_schema("Paused", "until", datetime | None, "``null``: until ``resume``.")
PARTITIONS: Schema[int] = field_schema("PartitionsShown", "partitions", int, "1: a plain topic.")


class MigratedShown(Struct):
    """``refused``: their ids are taken there; ``reserved``: held by a consumer; ``done`` false: there is more, ask again.

    ``schedules``, ``schedules_refused``: the same of schedules; ``options``: those that were copied.
    """

    moved: int
    refused: int
    reserved: int
    schedules: int
    schedules_refused: int
    settings: list[str]
    done: bool


MIGRATED = model_schema(MigratedShown)
