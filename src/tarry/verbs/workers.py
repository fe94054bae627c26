"""The live workers of a namespace: each says every ten seconds what it is and what it does.

    report ── every EVERY_S ──▶  tarry:{NAMESPACE}:workers ──▶  known: those heard within half a minute
    leave  ── at a clean stop ─▶

A hint for people and dashboards: nothing that tarry decides rests on it. What a worker says is JSON; what it has in hand is
said of the jobs that have been there for longest, so a report stays small however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.values.durations import as_datetime
from tarry.values.keys import WORKER_PARTS, worker_keys

REPORT = Script("workers/report", args=("worker", "since", "record"), keys=WORKER_PARTS)
LEAVE = Script("workers/leave", args=("worker",), keys=WORKER_PARTS)
LIST = Script("workers/list", args=("cursor", "limit"), keys=WORKER_PARTS)
REPORT_EVERY_S = 10.0
MOST_REPORTED_JOBS = 10
"""Jobs that a report names, at most."""
_STEP = b"200"
_FIRST = b"0"


class WorkerTopic(Struct, frozen=True):
    """A topic that a worker works on: at most ``slots`` jobs at a time, ``busy`` of them now."""

    name: str
    handlers: tuple[str, ...]
    slots: int
    busy: int


class HeldJob(Struct, frozen=True):
    """A job that a worker has in hand, handed out at ``taken``."""

    topic: str
    id: str
    attempt: int
    taken: datetime


class WorkerInfo(Struct, frozen=True):
    """A live worker process, as it told of itself at ``heard``, at most half a minute ago.

    ``name`` is the holder that ``get`` shows of its jobs; ``jobs`` are the ten that it has had for longest. ``stopping``: it
    takes no new ones. ``now`` is the server's time of this answer.
    """

    name: str
    host: str
    pid: int
    version: str
    since: datetime
    heard: datetime
    now: datetime
    slots: int
    busy: int
    stopping: bool
    topics: tuple[WorkerTopic, ...]
    jobs: tuple[HeldJob, ...]

    @property
    def free(self) -> int:
        """Slots without a job."""
        return max(self.slots - self.busy, 0)


class ReportedJob(Struct, frozen=True):
    """A job in hand, as it is reported; ``taken`` is server µs."""

    topic: str
    id: str
    attempt: int
    taken: int


class WorkerReport(Struct, frozen=True):
    """What a worker says of itself."""

    host: str
    pid: int
    version: str
    slots: int
    busy: int
    stopping: bool
    topics: Sequence[WorkerTopic]
    jobs: Sequence[ReportedJob]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerReport).decode


def report_worker(namespace: str, worker: bytes, since: int | None, worker_report: WorkerReport) -> ScriptCall[int]:
    """Says that a worker lives. Answers since when it is known; the next report says that again."""
    first = b"" if since is None else b"%d" % since
    return ScriptCall(REPORT, worker_keys(namespace), (worker, first, _encode(worker_report)), int)


def forget_worker(namespace: str, worker: bytes) -> ScriptCall[bool]:
    """A worker stops, or is certainly dead. Answers whether it was known."""
    return ScriptCall(LEAVE, worker_keys(namespace), (worker,), bool)


def list_workers(namespace: str) -> Flow[list[WorkerInfo]]:
    """Those that live, in order of their names."""
    found: dict[bytes, WorkerInfo] = {}
    cursor = _FIRST
    while True:
        now, cursor, *rows = yield from ask(ScriptCall(LIST, worker_keys(namespace), (cursor, _STEP), list))
        for name, heard, told in rows:  # a scan may name one twice
            info = _info(name, heard, told, now)
            if info is not None:
                found[name] = info
        if cursor == _FIRST:
            return [found[name] for name in sorted(found)]


def _info(name: bytes, heard: int, record: bytes, now: int) -> WorkerInfo | None:
    """``None`` for what another version, or somebody else, wrote in a way that cannot be read."""
    since, _, record = record.partition(b" ")
    try:
        said = _decode(record)
        return WorkerInfo(
            name=name.decode(),
            host=said.host,
            pid=said.pid,
            version=said.version,
            since=as_datetime(int(since)),
            heard=as_datetime(heard),
            now=as_datetime(now),
            slots=said.slots,
            busy=said.busy,
            stopping=said.stopping,
            topics=tuple(said.topics),
            jobs=tuple(HeldJob(job.topic, job.id, job.attempt, as_datetime(job.taken)) for job in said.jobs),
        )
    except (msgspec.MsgspecError, ValueError, OverflowError):
        return None
