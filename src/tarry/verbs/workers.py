"""The live workers of a namespace: each sends a report every ten seconds.

    report_worker ── every REPORT_EVERY_S ──▶  tarry:{NAMESPACE}:workers ──▶  list_workers: those that reported within half a minute
    forget_worker ── at a clean stop ───────▶
    set_worker_mode ── at any time ─────────▶  tarry:{NAMESPACE}:asked    ──▶  the answer to its next report

The mode of a worker: ``work``; ``quiet``, which takes no new jobs and goes on with those that it has; ``stop``, as SIGTERM.
A hint for people and dashboards, with one exception: by it a worker decides when a job of a task that no worker knows is dead
(worker/unknown_tasks.py). A report is JSON. It names only the jobs that a worker has had for longest, so that it stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import as_datetime
from tarry.values.keys import WORKER_PARTS, worker_keys

REPORT = Script("workers/report", args=("worker", "since", "record"), keys=WORKER_PARTS)
LEAVE = Script("workers/leave", args=("worker",), keys=WORKER_PARTS)
LIST = Script("workers/list_reports", args=("cursor", "limit"), keys=WORKER_PARTS, read_only=True)
ASK = Script("workers/ask", args=("worker", "mode"), keys=WORKER_PARTS)
WorkerMode = Literal["work", "quiet", "stop"]
"""The mode of a worker: it takes jobs; it only goes on with those that it has; it stops, as by SIGTERM."""
MODES: tuple[WorkerMode, ...] = get_args(WorkerMode)
REPORT_EVERY_S = 10.0
MOST_REPORTED_JOBS = 10
"""The maximum number of jobs in a report."""
_STEP = b"200"
_FIRST = b"0"


class WorkerTopic(Struct, frozen=True):
    """A topic that a worker consumes."""

    name: str
    """The topic's name."""
    handlers: tuple[str, ...]
    """The names of its handlers and tasks."""
    slots: int
    """How many of its jobs the worker runs at a time, at most."""
    busy: int
    """How many of its jobs are running."""
    overrun: int = 0
    """How many of its running jobs have taken longer than their timeout. Their handlers are plain functions, which
    cannot be stopped."""
    unknown: tuple[str, ...] = ()
    """A line for each unknown task whose jobs the worker has put back lately."""
    unknown_tasks: tuple[str, ...] = ()
    """The names of the unknown tasks."""
    max_attempts: dict[str, int | None] = {}
    """The limit of attempts of each handler that sets one; ``None``: any number of attempts."""
    longest_ms: dict[str, int] = {}
    """For each handler the longest time between a job's pop and its end, in milliseconds. The jobs that ended in the last
    half hour count, and some that ended up to an hour ago."""
    own_slots: int = 0
    """How many of the worker's slots only this topic may use."""
    takes_any_body: bool = False
    """Whether the topic has no tasks, and one handler that takes all its jobs, whatever their bodies are."""

    def max_attempts_of(self, task: str | None) -> int | UnsetType | None:
        """The ``max_attempts`` of the task, or of the topic's handler if the topic has no tasks; ``UNSET`` if none is set."""
        handler = self.handlers[0] if task is None and len(self.handlers) == 1 else task
        return UNSET if handler is None else self.max_attempts.get(handler, UNSET)


class HeldJob(Struct, frozen=True):
    """A job that a worker is running."""

    topic: str
    """The name of its topic."""
    id: str
    """The job's id."""
    attempt: int
    """Which attempt this is, from 1."""
    taken: datetime
    """When the job was handed out, by the server's clock."""
    overrun: bool = False
    """Whether the job has run for longer than its timeout."""


class WorkerInfo(Struct, frozen=True):
    """A live worker process, as of its last report, at most half a minute ago."""

    name: str
    """Its name, which ``get`` shows as the holder of its jobs."""
    host: str
    """The name of its machine."""
    pid: int
    """Its process id on that machine."""
    version: str
    """The version of tarry that it runs."""
    since: datetime
    """When the server first learned of it."""
    reported_at: datetime
    """When the worker reported these values."""
    now: datetime
    """The moment of this answer, by the server's clock, like ``since`` and ``reported_at``."""
    slots: int
    """How many jobs it runs at a time, at most."""
    busy: int
    """How many jobs are running."""
    stopping: bool
    """Whether it is stopping, and so takes no new jobs."""
    topics: tuple[WorkerTopic, ...]
    """The topics that it consumes."""
    jobs: tuple[HeldJob, ...]
    """Its running jobs; of more than ten, those that have run for the longest time."""
    mode: str
    """Its mode: ``work``, ``quiet`` (it takes no new jobs) or ``stop``."""
    asked: str = ""
    """The mode that ``set_worker_mode`` has asked it to take; empty: none."""
    restarts: dict[str, int] = {}
    """How often each part of its work in the background has failed and was started again."""

    @property
    def takes_jobs(self) -> bool:
        """Whether it takes new jobs, when it has a free slot."""
        return not self.stopping and self.mode != "quiet"

    @property
    def free(self) -> int:
        """Slots without a job."""
        return max(self.slots - self.busy, 0)

    @property
    def overrun(self) -> int:
        """Running jobs that have taken longer than their timeout."""
        return sum(topic.overrun for topic in self.topics)


class ReportedJob(Struct, frozen=True):
    """A job that a worker is working on, as it is reported; ``taken`` is in server µs."""

    topic: str
    id: str
    attempt: int
    taken: int
    overrun: bool = False


class WorkerReport(Struct, frozen=True):
    """A worker's report of itself."""

    host: str
    pid: int
    version: str
    slots: int
    busy: int
    stopping: bool
    topics: Sequence[WorkerTopic]
    jobs: Sequence[ReportedJob]
    mode: str = "work"
    restarts: dict[str, int] = {}
    """How often each work in the background of its process has failed, and was started again."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerReport).decode


class ReportAnswer(NamedTuple):
    """Since when the server knows a worker, which is passed with its next report, and the mode that it is asked to take."""

    since: int
    asked: WorkerMode | None


def report_worker(
    namespace: str, worker: bytes, since: int | None, worker_report: WorkerReport
) -> ScriptCall[ReportAnswer]:
    """Sends a worker's report. A mode that this version does not know is ignored."""

    def decode(reply: Reply) -> ReportAnswer:
        asked = (reply[1] or b"").decode()
        return ReportAnswer(reply[0], next((mode for mode in MODES if mode == asked), None))

    first = b"" if since is None else b"%d" % since
    return ScriptCall(REPORT, worker_keys(namespace), (worker, first, _encode(worker_report)), decode)


def set_worker_mode(namespace: str, worker: str, mode: WorkerMode) -> ScriptCall[bool]:
    """Asks a worker to take a mode. Returns whether it is alive."""
    check_mode(mode)
    return ScriptCall(ASK, worker_keys(namespace), (worker.encode(), mode.encode()), bool)


def check_mode(mode: str) -> None:
    """Raises ``BadInput`` for an unknown mode."""
    if mode not in MODES:
        raise BadInput(f"mode: {str(mode)[:40]!r} is unknown; it is {', '.join(MODES[:-1])} or {MODES[-1]}.")


def forget_worker(namespace: str, worker: bytes) -> ScriptCall[bool]:
    """Removes a worker that stops, or that is certainly dead. Returns whether it was known."""
    return ScriptCall(LEAVE, worker_keys(namespace), (worker,), bool)


def list_workers(namespace: str) -> Flow[list[WorkerInfo]]:
    """The live workers, by name."""
    found: dict[bytes, WorkerInfo] = {}
    cursor = _FIRST
    while True:
        now, cursor, *rows = yield from ask(ScriptCall(LIST, worker_keys(namespace), (cursor, _STEP), list))
        for name, reported_us, record, asked in rows:  # a scan may return one twice
            info = _info(name, reported_us, record, now, asked or b"")
            if info is not None:
                found[name] = info
        if cursor == _FIRST:
            return [found[name] for name in sorted(found)]


def _info(name: bytes, reported_us: int, record: bytes, now: int, asked: bytes) -> WorkerInfo | None:
    """A worker from its stored report. ``None`` if another version, or another program, wrote it and it cannot be read."""
    since, _, record = record.partition(b" ")
    try:
        report = _decode(record)
        return WorkerInfo(
            name=name.decode(),
            host=report.host,
            pid=report.pid,
            version=report.version,
            since=as_datetime(int(since)),
            reported_at=as_datetime(reported_us),
            now=as_datetime(now),
            slots=report.slots,
            busy=report.busy,
            stopping=report.stopping,
            topics=tuple(report.topics),
            jobs=tuple(
                HeldJob(job.topic, job.id, job.attempt, as_datetime(job.taken), job.overrun) for job in report.jobs
            ),
            mode=report.mode,
            asked=asked.decode(),
            restarts=report.restarts,
        )
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return None
