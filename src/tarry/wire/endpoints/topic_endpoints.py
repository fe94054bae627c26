"""Endpoints of topics: stats, lists, settings, and administration."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

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
from tarry.wire import answers, topic_answers, topic_models
from tarry.wire.endpoint import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, VIEW, Endpoint, Example
from tarry.wire.schemas import NOTHING

UNKNOWN = ("unknown_topic",)
_NOW = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
_PATH = {"topic": "orders"}
_STATS = Stats(
    topic="orders", now=_NOW, delayed=12, ready=0, reserved=3, dead=0, next_due=_NOW + timedelta(minutes=4),
    oldest_ready=None, paused_until=None, limited=None, watching=2, added=1015, popped=1003, finished=998, released=2, timed_out=0,
    died=0, too_late=0, kicked=0, deleted=2, replaced=0, refused=0, repeated=0, lost=0, swept=0,
    lateness=Lateness(1003, timedelta(microseconds=310), timedelta(microseconds=1800), timedelta(microseconds=4100)),
)  # fmt: skip
_KEY_STATS = KeyStats(
    topic="orders", key="customer-7", now=_NOW, delayed=0, ready=12, reserved=2, held_back=12,
    limited=LimitStatus("concurrency", None), next_run=None, paused_until=None, concurrency=2, rate=None,
)  # fmt: skip
_SETTINGS = TopicSettings(
    ttr=timedelta(minutes=1),
    max_attempts=20,
    keep_dead=timedelta(days=30),
    rate=None,
    burst=None,
    concurrency=None,
    max_lateness=None,
)

_GROUP = DeadGroup(
    "84b1c7f0a3d2", "charge", "ConnectionError: … from …", "billing.py, charge", 40, _NOW, _NOW, ("7", "6", "5")
)

NAMES = Endpoint(
    "GET",
    "/v1/topics",
    scopes=ANY_SCOPE,
    returns=topic_answers.TOPIC_NAMES,
    example=Example(answer=["orders"]),
)
WORKERS = Endpoint(
    "GET",
    "/v1/workers",
    scopes=ANY_SCOPE,
    returns=topic_answers.WORKERS,
    example=Example(answer=[]),
)
WORKER_MODE = Endpoint(
    "POST",
    "/v1/workers/{worker}/mode",
    scopes=ADMIN,
    body_model=topic_models.SetWorkerMode,
    returns=topic_answers.ASKED,
    example=Example(topic_models.SetWorkerMode("quiet"), True, {"worker": "ada:4711:k3x9"}),
)
STATS = Endpoint(
    "GET",
    "/v1/topics/{topic}/stats",
    scopes=ANY_SCOPE,
    problem_codes=UNKNOWN,
    returns=topic_answers.STATS,
    example=Example(answer=_STATS, path=_PATH),
)
BUSIEST_KEYS = Endpoint(
    "GET",
    "/v1/topics/{topic}/keys",
    scopes=ANY_SCOPE,
    query_model=topic_models.KeysQuery,
    problem_codes=UNKNOWN,
    returns=topic_answers.BUSIEST_KEYS,
    example=Example(answer=(_KEY_STATS,), path=_PATH),
)
KEY_STATS = Endpoint(
    "GET",
    "/v1/topics/{topic}/keys/{key}",
    scopes=ANY_SCOPE,
    problem_codes=UNKNOWN,
    returns=topic_answers.KEY_STATS,
    example=Example(answer=_KEY_STATS, path={**_PATH, "key": "customer-7"}),
)
HISTOGRAM = Endpoint(
    "GET",
    "/v1/topics/{topic}/histogram",
    scopes=ANY_SCOPE,
    query_model=topic_models.HistogramQuery,
    problem_codes=UNKNOWN,
    returns=topic_answers.HISTOGRAM,
    example=Example(answer=Histogram(_NOW, _NOW, timedelta(minutes=15), 0, (3, 0, 7, 2), 0), path=_PATH),
)
THROUGHPUT = Endpoint(
    "GET",
    "/v1/topics/{topic}/throughput",
    scopes=ANY_SCOPE,
    query_model=topic_models.ThroughputQuery,
    problem_codes=UNKNOWN,
    returns=topic_answers.THROUGHPUT,
    example=Example(
        answer=(MinuteCounts(_NOW - timedelta(minutes=1), 12, 10, 1, 0), MinuteCounts(_NOW, 3, 4, 0, 0)), path=_PATH
    ),
)
LIST_JOBS = Endpoint(
    "GET",
    "/v1/topics/{topic}/jobs",
    scopes=VIEW,
    query_model=topic_models.ListQuery,
    problem_codes=("unknown_cursor", *UNKNOWN),
    returns=answers.JOB_PAGE,
    example=Example(answer=answers.JobPageShown([]), path=_PATH),
)
DEAD_GROUPS = Endpoint(
    "GET",
    "/v1/topics/{topic}/dead-groups",
    scopes=VIEW,
    query_model=topic_models.DeadGroupsQuery,
    problem_codes=("unknown_cursor", *UNKNOWN),
    returns=topic_answers.DEAD_GROUPS,
    example=Example(answer=DeadGroups((_GROUP,), 40, 40), path=_PATH),
)
CHECK = Endpoint(
    "GET",
    "/v1/topics/{topic}/check",
    scopes=ADMIN,
    returns=topic_answers.CHECK,
    example=Example(answer=CheckReport(15, ())),
)
PAUSE = Endpoint(
    "POST",
    "/v1/topics/{topic}/pause",
    scopes=ADMIN,
    body_model=topic_models.Pause,
    returns=topic_answers.PAUSED,
    example=Example(topic_models.Pause("10m"), _NOW, _PATH),
)
RESUME = Endpoint(
    "POST",
    "/v1/topics/{topic}/resume",
    scopes=ADMIN,
    query_model=topic_models.ResumeQuery,
    returns=NOTHING,
)
PURGE = Endpoint(
    "POST",
    "/v1/topics/{topic}/purge",
    scopes=ADMIN,
    body_model=topic_models.Purge,
    problem_codes=UNKNOWN,
    returns=answers.COUNT,
    example=Example(topic_models.Purge("dead"), 3, _PATH),
)
SETTINGS = Endpoint(
    "GET",
    "/v1/topics/{topic}/settings",
    scopes=ANY_SCOPE,
    returns=topic_answers.SETTINGS,
    example=Example(answer=_SETTINGS, path=_PATH),
)
CONFIGURE = Endpoint(
    "PATCH",
    "/v1/topics/{topic}/settings",
    scopes=ADMIN,
    body_model=topic_models.Configure,
    returns=topic_answers.SETTINGS,
    example=Example(topic_models.Configure(ttr="1m"), _SETTINGS, _PATH),
)
PARTITIONS = Endpoint(
    "GET",
    "/v1/topics/{topic}/partitions",
    scopes=ANY_SCOPE,
    returns=topic_answers.PARTITIONS,
    example=Example(answer=1, path=_PATH),
)
PUT_PARTITIONS = Endpoint(
    "PUT",
    "/v1/topics/{topic}/partitions",
    scopes=PRODUCE | CONSUME,
    body_model=topic_models.PutPartitions,
    returns=topic_answers.PARTITIONS,
    example=Example(topic_models.PutPartitions(8), 8, _PATH),
)
MIGRATE = Endpoint(
    "POST",
    "/v1/topics/{topic}/migrate",
    scopes=ADMIN,
    body_model=topic_models.Migrate,
    returns=topic_answers.MIGRATED,
    example=Example(
        topic_models.Migrate("orders-8"),
        topic_answers.MigratedShown(
            moved=998, refused=0, reserved=3, schedules=1, schedules_refused=0, settings=["ttr"], done=True
        ),
        _PATH,
    ),
)
