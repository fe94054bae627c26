"""The numbers on the pages: `{{burst.jobs_per_s}}` is measured, `{{default.ttr}}` and `{{limit.body}}` are constants of src.

The site fills them in when it reads a page (conf.py), and so does everything else that shows a page: ``fill``. A name without a row of
docs/evidence/benchmarks.json, or without a constant, is an error. A forge shows README.md as it is, so README has none of them.
"""

from __future__ import annotations

import importlib
import json
import re
import statistics
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from tarry.values.durations import SECOND, Duration, duration_us

ROOT = Path(__file__).resolve().parent.parent
READINGS = ROOT / "docs" / "evidence" / "benchmarks.json"
LOCALS = re.compile(r"^local ([A-Z_, ]+) = ([^-\n]+)", re.M)
REFERENCE = re.compile(r"\{\{([a-z_]+\.[a-z0-9_.]+)\}\}")


class Measured(NamedTuple):
    """A reading of a row of the benchmarks: of tarry, of its yardstick, their ratio, or one of its details."""

    row: str
    measure: str
    reading: str = "tarry"
    unit: str = ""


class Constant(NamedTuple):
    """A value of src: its module, its name there (of a class, the default of a field), and what a number of it counts. A script is
    named by its path."""

    module: str
    name: str
    unit: str = ""


BURST = "20,000 jobs due at once, one worker process, "
LATENESS = "p99 of lateness, 50 consumers, 50 jobs/s"
MEMORY = "server memory a pending job, 100,000 of them"
POP = "server time of a pop, "
DRAIN = "100,000 elements with random due times"
MEASURED: dict[str, Measured] = {
    "add.jobs_per_s": Measured("add", "blocking add, one by one"),
    "add_many.jobs_per_s": Measured("add_many", "add_many, 200-byte bodies"),
    "add_tasks.jobs_per_s": Measured("add_tasks", "64 asyncio tasks adding one by one"),
    "beanstalk.put": Measured("beanstalk", "puts, 1 connection", "ratio"),
    "beanstalk.put_of_64": Measured("beanstalk", "puts, 64 connections", "ratio"),
    "beanstalk.take": Measured("beanstalk", "reserve and delete, 1 connection", "ratio"),
    "beanstalk.take_of_64": Measured("beanstalk", "reserve and delete, 64 connections", "ratio"),
    "burst.jobs_per_s": Measured("burst", BURST + "as by default"),
    "burst.threads_per_s": Measured("worker", BURST + "plain handler, 20 threads"),
    "drain.per_s": Measured("queue_drain", DRAIN),
    "drain.redisson_per_s": Measured("queue_drain", DRAIN, "yardstick"),
    "http.add_per_s": Measured("service", "adds, one by one, 64 connections"),
    "http.add_many_per_s": Measured("service", "adds, 1,000 a request"),
    "http.pop_per_s": Measured("service", "pop and finish, one by one"),
    "idle.calls_per_s": Measured("worker", "calls of an idle worker with a topic"),
    "idle.calls_of_20_topics_per_s": Measured("worker", "calls of an idle worker with 20 topics"),
    "lateness.p50": Measured("lateness", LATENESS, "p50", "ms"),
    "lateness.p99": Measured("lateness", LATENESS, unit="ms"),
    "lateness.timer_p50": Measured("lateness", LATENESS, "bare timer p50", "ms"),
    "lateness.timer_p99": Measured("lateness", LATENESS, "yardstick", "ms"),
    "memory.job": Measured("memory", MEMORY, unit="bytes"),
    "memory.record": Measured("memory", MEMORY, "jobs", "bytes"),
    "memory.index": Measured("memory", MEMORY, "due", "bytes"),
    "partitions.ratio": Measured("cluster", "busiest of 3 masters, µs a job, lives in batches, 12 partitions", "ratio"),
    "pop.of_1k": Measured("pop", POP + "1 k pending", unit="µs"),
    "pop.of_300k": Measured("pop", POP + "300 k pending", unit="µs"),
    "pop.ratio": Measured("pop", POP + "300 k pending", "ratio"),
}
CONSTANTS: dict[str, Constant] = {
    "default.answer": Constant("connections.address", "ANSWER_TIMEOUT_S", "s"),
    "default.beanstalk_job": Constant("programs.beanstalk.server", "MAX_JOB_SIZE", "bytes"),
    "default.celery_message": Constant("celery.delayed_messages", "MAX_MESSAGE", "bytes"),
    "default.cli_patience": Constant("programs.cli.session", "PATIENCE", "s"),
    "default.cli_wait": Constant("programs.cli.session", "WAITING", "s"),
    "default.concurrency": Constant("worker.registry", "CONCURRENCY"),
    "default.embedded_linger": Constant("connections.embedded.shared_server", "LINGER_S", "s"),
    "default.grace": Constant("worker.worker", "GRACE", "s"),
    "default.jitter": Constant("worker.verdicts", "DEFAULT_BACK_OFF.jitter", "share"),
    "default.keep_dead": Constant("verbs.jobs.settings", "KEEP_US", "us"),
    "default.lock": Constant("verbs.locks.redis_backend", "WATCHDOG_MS", "ms"),
    "default.max_attempts": Constant("verbs.jobs.precedence", "MAX_ATTEMPTS.default"),
    "default.max_body": Constant("clients.config", "MAX_BODY", "bytes"),
    "default.max_request": Constant("programs.service.settings", "MAX_REQUEST", "bytes"),
    "default.patience": Constant("core.patience", "Patience.bound", "s"),
    "default.map_amount": Constant("verbs.redisson.mapcache.eviction", "AdaptivePolicy.amount"),
    "default.map_first": Constant("verbs.redisson.mapcache.eviction", "AdaptivePolicy.minimum", "s"),
    "default.map_longest": Constant("verbs.redisson.mapcache.eviction", "AdaptivePolicy.maximum", "s"),
    "default.retry_first": Constant("worker.verdicts", "DEFAULT_BACK_OFF.first", "s"),
    "default.retry_longest": Constant("worker.verdicts", "DEFAULT_BACK_OFF.longest", "s"),
    "default.threads": Constant("worker.registry", "THREADS"),
    "default.ttr": Constant("verbs.jobs.precedence", "TTR.default", "s"),
    "default.unknown_tasks": Constant("worker.worker", "UNKNOWN_TASKS_DIE_AFTER", "s"),
    "default.warn_blocked": Constant("worker.worker", "WARN_BLOCKED_AFTER", "s"),
    "default.worker_ttr": Constant("worker.worker", "TTR", "s"),
    "limit.absent": Constant("verbs.liveness", "GRACE_S", "s"),
    "limit.ahead": Constant("worker.in_hand", "HANDLED_S", "s"),
    "limit.ahead_wait": Constant("worker.in_hand", "LONGEST_WAIT_S", "s"),
    "limit.alive": Constant("worker.liveness", "REPEAT_S", "s"),
    "limit.asked": Constant("worker.liveness", "ASKED_EVERY_S", "s"),
    "limit.baggage": Constant("otel", "LONGEST_CONTEXT", "bytes"),
    "limit.batch": Constant("verbs.jobs.pop", "MOST_JOBS"),
    "limit.beanstalk_late": Constant("programs.beanstalk.server", "SETTLE_S", "s"),
    "limit.beanstalk_watched": Constant("programs.beanstalk.session", "MOST_WATCHED"),
    "limit.blocked_connections": Constant("connections.connection_limit", "MOST_BLOCKED"),
    "limit.bodies": Constant("lua/lib/bytes", "MOST_READ", "bytes"),
    "limit.body_rate": Constant("programs.serving.connection_limits", "MIN_RATE", "bytes"),
    "limit.capacity_known": Constant("lua/lib/clock", "LEASE", "us"),
    "limit.celery_relay": Constant("celery.relay", "BATCH"),
    "limit.celery_ttr": Constant("celery.delayed_messages", "TTR_S", "s"),
    "limit.confirmation": Constant("verbs.jobs.durability", "WITHIN_MS", "ms"),
    "limit.dashboard_sample": Constant("programs.dashboard.sampler", "EVERY_S", "s"),
    "limit.discovery": Constant("worker.discovery", "LOOK_EVERY_S", "s"),
    "limit.ends": Constant("clients.awaited.ends", "MOST_AT_ONCE"),
    "limit.ends_look": Constant("clients.awaited.ends", "LOOK_EVERY_S", "s"),
    "limit.ends_rest": Constant("clients.awaited.ends", "REST_S", "s"),
    "limit.failures": Constant("connections.background", "MOST"),
    "limit.failures_time": Constant("connections.background", "WITHIN_S", "s"),
    "limit.full_schedule": Constant("lua/schedules/fire", "WAIT", "us"),
    "limit.http_head": Constant("programs.serving.connection_limits", "HEAD_S", "s"),
    "limit.http_head_size": Constant("programs.service.heads", "LONGEST_HEAD", "bytes"),
    "limit.http_idle": Constant("programs.serving.connection_limits", "IDLE_S", "s"),
    "limit.http_last": Constant("programs.serving.connection_limits", "LAST_S", "s"),
    "limit.http_request": Constant("programs.serving.connection_limits", "REQUEST_S", "s"),
    "limit.http_stopping": Constant("programs.serving.connection_limits", "WHILE_DRAINING_S", "s"),
    "limit.http_unread": Constant("programs.serving.connection_limits", "UNREAD_S", "s"),
    "limit.http_wait": Constant("wire.types", "LONGEST_WAIT_S", "s"),
    "limit.job_key": Constant("verbs.jobs.options", "LONGEST_KEY", "bytes"),
    "limit.keep_alive": Constant("worker.liveness", "LINGER_S", "s"),
    "limit.lock_renewal": Constant("verbs.locks.redis_backend", "RENEWED_EVERY_S", "s"),
    "limit.log": Constant("worker.log_lines", "LOG_EVERY_S", "s"),
    "limit.lost_pop": Constant("worker.lost_pops", "AFTER_S", "s"),
    "limit.many_topics": Constant("core.watch", "MANY_QUEUES"),
    "limit.map_look": Constant("lua/redisson/mapcache/evict", "ROUND", "us"),
    "limit.map_replies": Constant("lua/redisson/lib/stored_reply", "KEPT", "ms"),
    "limit.metrics_topics": Constant("programs.service.topic_verdicts", "MOST_TOPICS"),
    "limit.missed": Constant("verbs.schedules.fire", "MOST_MISSED"),
    "limit.observers": Constant("verbs.liveness", "EVERY_S", "s"),
    "limit.on_time": Constant("verbs.schedules.fire", "ON_TIME_WITHIN_US", "us"),
    "limit.open_requests": Constant("programs.service.open_requests", "MOST_OPEN"),
    "limit.open_size": Constant("programs.service.open_requests", "MOST_BEHIND", "bytes"),
    "limit.partition": Constant("programs.cli.doctor", "MAX_JOBS"),
    "limit.partition_mb": Constant("programs.cli.doctor", "MAX_MB"),
    "limit.push_wait": Constant("programs.dialects.delay_queue", "WAIT_S", "s"),
    "limit.redeclared": Constant("worker.task_schedules", "REDECLARE_S", "s"),
    "limit.remembered": Constant("lua/lib/stale", "MOST"),
    "limit.remembered_time": Constant("lua/lib/stale", "KEPT", "s"),
    "limit.reports": Constant("verbs.workers", "REPORT_EVERY_S", "s"),
    "limit.result": Constant("verbs.jobs.settle", "LONGEST_RESULT", "bytes"),
    "limit.script_bytes": Constant("core.requests", "MOST_BYTES", "bytes"),
    "limit.script_jobs": Constant("core.requests", "MOST_ITEMS"),
    "limit.sentinels": Constant("connections.sentinels", "EVERY_S", "s"),
    "limit.servers": Constant("connections.address", "ASK_TIMEOUT_S", "s"),
    "limit.shown_worker": Constant("lua/lib/workers", "TERM", "us"),
    "limit.spare_files": Constant("programs.serving.listener", "SPARE_FILES"),
    "limit.sqs_attributes": Constant("programs.sqs.messages", "MOST_ATTRIBUTES"),
    "limit.sqs_delay": Constant("programs.sqs.queues", "LONGEST_DELAY_S"),
    "limit.sqs_invisible": Constant("programs.sqs.queues", "LONGEST_INVISIBLE_S", "s"),
    "limit.sqs_wait": Constant("programs.sqs.queues", "LONGEST_RECEIVE_S", "s"),
    "limit.sqs_large": Constant("programs.sqs.limits", "LARGE", "bytes"),
    "limit.sqs_large_requests": Constant("programs.sqs.limits", "MOST_LARGE"),
    "limit.sqs_long_attributes": Constant("programs.sqs.messages", "LONG_ATTRIBUTES", "bytes"),
    "limit.sqs_message": Constant("programs.sqs.queues", "MOST_BYTES", "bytes"),
    "limit.sqs_request": Constant("programs.sqs.limits", "MOST_ON_THE_WIRE", "bytes"),
    "limit.sqs_signature": Constant("programs.sqs.signature", "MOST_SKEW_S", "s"),
    "limit.steps": Constant("verbs.jobs.steps", "MOST_BYTES", "bytes"),
    "limit.stream_look": Constant("programs.service.routes.events", "POLL_INTERVAL_S", "s"),
    "limit.streams": Constant("programs.service.routes.events", "MOST_LISTENERS"),
    "limit.token_streams": Constant("programs.service.routes.events", "MOST_PER_TOKEN"),
    "limit.topics_per_waiter": Constant("clients.awaited.engine", "TOPICS_PER_WAITER"),
    "limit.topics_shown": Constant("programs.service.topic_verdicts", "MOST_SHOWN"),
    "limit.tracking": Constant("connections.tracking", "RECHECK_S", "s"),
    "limit.unknown_first": Constant("worker.unknown_tasks", "FIRST_PAUSE_US", "us"),
    "limit.unknown_task": Constant("worker.unknown_tasks", "LONGEST_PAUSE_US", "us"),
    "limit.unknown_task_known": Constant("worker.unknown_tasks", "LONGEST_WHILE_KNOWN_US", "us"),
    "limit.views_searched": Constant("verbs.jobs.views", "MOST_SEARCHED"),
    "limit.watch": Constant("lua/lib/watch", "ROUND", "us"),
    "limit.watch_seat": Constant("lua/lib/watch", "GRACE", "us"),
}


def fill(text: str) -> str:
    """A page with its numbers. Raises LookupError for a name that has none."""
    return REFERENCE.sub(lambda match: value(match[1]), text)


@cache
def value(name: str) -> str:
    """What stands for a reference."""
    if name in MEASURED:
        return _measured(MEASURED[name])
    if name in CONSTANTS:
        return _constant(CONSTANTS[name])
    raise LookupError(f"{{{{{name}}}}}: no such number. Name it in docs/figures.py, with its row or its constant.")


def values() -> dict[str, str]:
    """All of them, by name."""
    return {name: value(name) for name in (*MEASURED, *CONSTANTS)}


@cache
def _rows() -> dict[tuple[str, str], dict[str, Any]]:
    results = json.loads(READINGS.read_text("utf-8"))["results"]
    return {(one["row"], one["measure"]): one for one in results}


def _measured(of: Measured) -> str:
    row = _rows().get((of.row, of.measure))
    if row is None:
        raise LookupError(
            f"docs/evidence/benchmarks.json has no row {of.row!r} with {of.measure!r}: correct docs/figures.py, or measure it."
        )
    reading = row["details"].get(of.reading, row.get(of.reading))
    if reading is None:
        raise LookupError(f"docs/evidence/benchmarks.json has no {of.reading!r} in the row {of.row!r}, {of.measure!r}.")
    number = _rounded(statistics.median(reading) if isinstance(reading, list) else reading)
    return f"{number} {of.unit}".rstrip()


def _rounded(number: float) -> str:
    """Three digits."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def _constant(of: Constant) -> str:
    if "/" in of.module:
        return SHOWN[of.unit](_of_script(of.module, of.name))
    first, _, rest = of.name.partition(".")
    found = getattr(importlib.import_module(f"tarry.{of.module}"), first)
    if rest:
        found = attrgetter(rest)(found() if isinstance(found, type) else found)
    return SHOWN[of.unit](found)


def _of_script(path: str, name: str) -> int:
    """A number that a script gives a name: `local GRACE, ROUND = 1000000, 10000000`."""
    text = (ROOT / "src" / "tarry" / f"{path}.lua").read_text(encoding="utf-8")
    for names, numbers in LOCALS.findall(text):
        found = dict(zip(re.findall(r"\w+", names), numbers.split(","), strict=False))
        if name in found and found[name].strip().isdigit():
            return int(found[name])
    raise LookupError(f"src/tarry/{path}.lua has no number with the name {name}: correct docs/figures.py.")


def _duration(given: Duration) -> str:
    seconds = duration_us(given) / SECOND
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if (seconds >= 2 * size and seconds % size == 0) or seconds == size == 3600:
            return f"{seconds / size:,g} {unit}"
    return f"{seconds:g} s"


def _bytes(number: int) -> str:
    for size, unit in ((1 << 20, "MiB"), (1 << 10, "KiB"), (10**6, "MB"), (10**3, "KB")):
        if number >= size and (2 * number) % size == 0:
            return f"{number / size:,g} {unit}"
    return f"{number:,} bytes"


SHOWN: dict[str, Callable[[Any], str]] = {
    "": lambda number: f"{number:,}",
    "s": _duration,
    "us": lambda number: _duration(number / SECOND),
    "ms": lambda number: _duration(number / 1_000),
    "bytes": _bytes,
    "share": lambda number: f"{number * 100:g} %",
}
"""How a constant is written, by what it counts; a number of seconds may also be text or a timedelta."""
