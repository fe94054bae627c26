"""The arguments and results of a topic's verbs. All immutable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct

from tarry.errors import BadInput, BodyError, NoResult
from tarry.values.durations import as_datetime, as_timedelta
from tarry.values.other_words import HidesOtherWords
from tarry.verbs.codecs import JSON_FAULTS, BodyCodec
from tarry.verbs.jobs import job_fields as contents
from tarry.verbs.jobs import records
from tarry.verbs.jobs.job_fields import FailedAttempt

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

State = Literal["delayed", "ready", "reserved", "dead"]
"""The states of a job: it waits, it may be handed out, it is being worked on, it is set aside."""
JobState = State | Literal["finished"]
"""A state of what ``get`` and ``list`` return; ``finished`` is history, kept by the topic or the task."""
ENDED: tuple[JobState, ...] = ("finished", "dead")
StateFilter = JobState | Literal["retrying"]
"""A state for ``list`` and ``purge``; ``retrying`` is the delayed jobs that have failed before."""
EXHAUSTED = "attempts exhausted"
"""The reason of a job whose last attempt failed: what failed begins its error. lua/lib/bury.lua writes the same."""
Range = tuple[bytes, bytes]
"""A sorted set, and its side of the present: all, past or future."""
_RANGES: dict[StateFilter, list[Range]] = {
    "ready": [(b"due", b"past"), (b"reserved", b"past")],
    "delayed": [(b"due", b"future")],
    "reserved": [(b"reserved", b"future")],
    "dead": [(b"dead", b"all")],
    "retrying": [(b"retrying", b"future")],
    "finished": [(b"finished", b"future")],
}
"""Where the jobs of each state are stored: the state follows from the sorted set and the clock. Retrying jobs are in ``due``, too;
finished ones are history, and only a state that names them contains them."""


def ranges_of(state: StateFilter | None) -> list[Range]:
    """The ranges that contain the jobs of a state; without a state, of all jobs."""
    if state is None:
        return [(b"due", b"all"), (b"reserved", b"all"), (b"dead", b"all")]
    if state not in _RANGES:
        from tarry.values.other_words import STATES

        meant = STATES.get(state.lower()) if isinstance(state, str) else None
        one_of = f"it is one of {', '.join(_RANGES)}"
        raise BadInput(f"state: {state!r} is unknown; {f'tarry calls it {meant}; ' if meant else ''}{one_of}.")
    return _RANGES[state]


class HasReceipt(Protocol):
    """A job with a receipt: a popped job, or a ``Reservation``, which is made from a job's id and receipt."""

    @property
    def id(self) -> str:
        """The job's id."""
        ...

    @property
    def receipt(self) -> int:
        """The receipt that the job was handed out with."""
        ...


@dataclass(frozen=True, slots=True)
class Reservation:
    """A job's id and its receipt. With both, another process can settle the job."""

    id: str
    """The job's id."""
    receipt: int
    """The receipt that the job was handed out with."""


class Added(Struct, frozen=True):
    """The result of ``add``."""

    id: str
    """The job's id: the given one, or one that tarry made."""
    is_new: bool
    """Whether the call added a job. False if ``if_exists`` kept the job that has this id, or updated it."""
    state: JobState
    """The job's state; ``finished`` only if ``if_exists="once"`` found a finished job."""
    due: datetime
    """When the job is due. If it is reserved, this is the end of its time to run; if it is dead, when it died; if it is finished, until when
    it is kept."""


class StoredJob(Generic[T], metaclass=HidesOtherWords):
    """The common fields of popped jobs and of the results of ``get`` and ``list``."""

    _for_modules: ClassVar[tuple[str, ...]] = ("encoded", "head", "kept_steps")

    __slots__ = ("_codec", "_kept_steps", "_parsed_head", "_value", "id", "topic")

    def __init__(self, topic: str, codec: BodyCodec[T], id: str, value: contents.Record) -> None:
        self.topic = topic
        """The name of its topic."""
        self.id = id
        """The job's id, unique in its topic."""
        self._codec = codec
        self._value = value
        self._parsed_head: contents.JobContents | None = None
        self._kept_steps: dict[str, bytes] | None = None

    @property
    def head(self) -> contents.JobContents:
        """The parsed head of the stored record."""
        if self._parsed_head is None:
            self._parsed_head = records.unpack_head(self._value)
        return self._parsed_head

    @property
    def body(self) -> T:
        """The body, decoded now. Raises ``BodyError`` when it is not of the topic's type."""
        return self._codec.decode(*self.encoded)

    @property
    def encoded(self) -> tuple[bytes, int]:
        """The body's bytes as they are stored, and the flag that says whether they are JSON or plain bytes."""
        return records.body_of(self._value)

    @property
    def raw(self) -> bytes:
        """The body's bytes as they are stored."""
        return self.encoded[0]

    @property
    def headers(self) -> dict[str, str]:
        """The map of strings given to ``add``. Raises ``BodyError`` if it is damaged; the body may still be readable."""
        return records.unpack_headers(self.head.headers)

    @property
    def priority(self) -> int:
        """0 to 3: of the due jobs of a topic, those with the highest priority are handed out first."""
        return self.head.priority

    @property
    def key(self) -> str | None:
        """The word given to ``add``, such as a customer's name, by which the topic's limits for keys count jobs; ``None`` without one."""
        return self.head.key

    @property
    def created(self) -> datetime:
        """When the job was added, by the server's clock."""
        return as_datetime(self.head.created)

    @property
    def steps(self) -> dict[str, Any]:
        """The results of the job's steps, by the names of the steps, in the order in which they ended."""
        return {name: msgspec.json.decode(result) for name, result in self.kept_steps.items()}

    @property
    def kept_steps(self) -> dict[str, bytes]:
        """The same as JSON."""
        if self._kept_steps is None:
            self._kept_steps = records.unpack_steps(self.head.steps)
        return self._kept_steps


PoppedFields = tuple[bytes, contents.Record, int, int, int]
"""id, record, attempt, due, TTR in µs."""
JobParts = tuple[int, int, PoppedFields]
"""Receipt, moment of the pop in µs, and the fields: what a job is made of, besides its topic."""


class BaseJob(StoredJob[T]):
    """A popped job, reserved for its time to run."""

    attempt: int
    """Which attempt this is, from 1."""
    lost: bool
    """True as soon as a worker knows that the reservation is over. Stop working on the job, because another consumer may
    have it."""
    _for_modules = ("due_us", "parts", "popped_us", "settled", "ttr_us")
    __slots__ = ("_entered", "attempt", "due_us", "lost", "popped_us", "receipt", "settled", "ttr_us")

    def __init__(self, topic: str, codec: BodyCodec[T], receipt: int, now: int, raw: PoppedFields):
        id, value, self.attempt, self.due_us, self.ttr_us = raw
        super().__init__(topic, codec, id.decode("utf-8", "replace"), value)
        self.receipt = receipt
        """The number that proves the reservation. It is higher each time the job is handed out."""
        self.settled = self._entered = self.lost = False
        self.popped_us = now

    def step(self, name: str, function: Callable[[], Any], *, type: Any = Any) -> Any:
        """Calls a function once for this job. The result is kept with the job, and when the job runs again, the kept result is returned.
        Await ``step`` of an ``AsyncJob``."""
        raise NotImplementedError

    @property
    def parts(self) -> JobParts:
        """The values that make the same job for another client, or in another process."""
        return self.receipt, self.popped_us, (self.id.encode(), self._value, self.attempt, self.due_us, self.ttr_us)

    def _enter(self) -> None:
        # the first block settles it; a second would do its work for a job that may be another consumer's by then
        if self.settled:
            raise BadInput(
                f"job {self.id}: it is settled; a `with` is for a job that is still yours. Pop the next one."
            )
        if self._entered:
            raise BadInput(f"job {self.id}: it is in a `with` already, which settles it; one is enough.")
        self._entered = True

    @property
    def due(self) -> datetime:
        """When the job was due, by the server's clock."""
        return as_datetime(self.due_us)

    @property
    def lateness(self) -> timedelta:
        """How long after its due time the job was handed out. Never negative."""
        return as_timedelta(self.popped_us - self.due_us)

    @property
    def ttr(self) -> timedelta:
        """Time to run: how long the reservation lasts unless it is touched."""
        return as_timedelta(self.ttr_us)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.topic}, attempt {self.attempt}>"


class _Stored(Protocol):
    """A stored job: a popped one, one that was read, or that of a schedule."""

    @property
    def head(self) -> contents.JobContents: ...


def head_of(job: _Stored) -> contents.JobContents:
    """The parsed head of its stored record, for programs."""
    return job.head


class JobInfo(StoredJob[T]):
    """A job as it is now, read without a reservation."""

    _for_modules = ("result_json",)
    __slots__ = ("_failed", "_history", "_run_record", "_since", "state")

    def __init__(
        self,
        topic: str,
        codec: BodyCodec[T],
        id: str,
        state: JobState,
        since: int,
        value: contents.Record,
        run: contents.JobRun,
        failed: bytes | tuple[FailedAttempt, ...],
        history: contents.FinishedRecord | None = None,
    ) -> None:
        super().__init__(topic, codec, id, value)
        self.state: JobState = state
        """``delayed``, ``ready``, ``reserved``, ``dead`` or ``finished``."""
        self._history = history
        self._since = since
        self._run_record = run
        self._failed = failed

    @property
    def due(self) -> datetime | None:
        """When a delayed or ready job is due; ``None`` for other jobs."""
        return as_datetime(self._since) if self.state in ("delayed", "ready") else None

    @property
    def reserved_until(self) -> datetime | None:
        """When the time to run of a reserved job ends."""
        return as_datetime(self._since) if self.state == "reserved" else None

    @property
    def died(self) -> datetime | None:
        """When a dead job was set aside."""
        return as_datetime(self._since) if self.state == "dead" else None

    @property
    def finished(self) -> datetime | None:
        """When a finished job was finished."""
        return as_datetime(self._history.finished) if self._history else None

    @property
    def kept_until(self) -> datetime | None:
        """Until when a finished job is kept."""
        return as_datetime(self._since) if self._history else None

    @property
    def result(self) -> Any:
        """The result of a finished job; ``None`` if it has no result. Raises ``NoResult`` if the job is not finished, or its result
        was not kept."""
        return result_of(self)

    @property
    def result_json(self) -> bytes:
        """The result as it is stored: JSON, or nothing."""
        return self._history.result if self._history else b""

    @property
    def result_not_kept(self) -> str | None:
        """Why the result of a finished job was not kept: it was too large, or could not be encoded."""
        return self._history.not_kept or None if self._history else None

    @property
    def encoded(self) -> tuple[bytes, int]:
        """As it is stored. A finished job is kept without a body that is too large: then it raises ``BodyError``."""
        if self._history and self._history.left_out:
            raise BodyError(
                f"body: it has {self._history.left_out} bytes; a finished job is kept without so large a body."
            )
        return super().encoded

    @property
    def retrying(self) -> bool:
        """Whether the job waits for another attempt after a failure: it is delayed, and has failed before."""
        return self.state == "delayed" and self._run_record.first_failure > 0

    @property
    def attempts(self) -> int:
        """How often the job has been handed out, not counting the hand-outs that were no attempts."""
        return self._run_record.attempt

    @property
    def failed_attempts(self) -> tuple[FailedAttempt, ...]:
        """The last ten attempts that failed, the last one first. After a kick there are none."""
        if isinstance(self._failed, bytes):
            self._failed = records.unpack_attempts(self._failed)
        return self._failed

    @property
    def max_attempts(self) -> int | None:
        """The job's own limit of attempts; ``None`` if the topic's applies, or if there is no limit."""
        own = self.head.max_attempts
        return own if 0 < own < contents.NO_LIMIT else None

    @property
    def effective_max_attempts(self) -> int | None:
        """The limit of attempts that applied when the job was last handed out: its own, or else the topic's. A handler's limit is known here
        only after a failure. ``None`` if there is no limit, or none is known yet."""
        limit = self._run_record.limit
        return limit if 0 < limit < contents.NO_LIMIT else None

    @property
    def ttr(self) -> timedelta | None:
        """The job's own time to run; ``None`` if the consumer's or the topic's applies."""
        return timedelta(milliseconds=self.head.ttr_ms) if self.head.ttr_ms else None

    @property
    def receipt(self) -> int | None:
        """The receipt that the job was last handed out with; ``None`` if it never was handed out."""
        return self._run_record.receipt or None

    @property
    def holder(self) -> str | None:
        """The consumer that has the job, or had it last."""
        return self._run_record.holder or None

    @property
    def reason(self) -> str | None:
        """Why the job is dead, or how it failed last, in one line."""
        return self._run_record.fault.partition("\n")[0] or None

    @property
    def error(self) -> str | None:
        """The last failure without its first line, such as a traceback. The first line is the ``reason``."""
        return self._run_record.fault.partition("\n")[2] or None

    @property
    def failure(self) -> str | None:
        """The last failure in one line: the ``reason``, or the first line of ``error`` if the reason only says that no attempt is
        left."""
        return failure_line(self.reason or "", self.error or "") or None

    @property
    def note(self) -> str | None:
        """A remark beside the failure, such as that no worker knows the job's task, since when, and which worker knew it last."""
        return self._run_record.note or None

    @property
    def first_failure(self) -> datetime | None:
        """When the job failed for the first time."""
        return as_datetime(self._run_record.first_failure) if self._run_record.first_failure else None

    def __repr__(self) -> str:
        return f"<JobInfo {self.id} of {self.topic}, {self.state}>"


def failure_line(reason: str, error: str) -> str:
    """The last failure in one line; see ``JobInfo.failure``."""
    return (error.strip().partition("\n")[0].strip() if reason == EXHAUSTED else "") or reason


def result_of(job: JobInfo[Any], kind: Any = Any, *, waited: bool = True) -> Any:
    """The result of a finished job, decoded as a type. Raises ``NoResult``; unless the caller ``waited``, it tells how to wait."""
    if job.state != "finished":
        dead = job.state == "dead"
        hint = "" if waited else '; give wait=, such as wait="30s"'
        why = f"is dead: {job.failure}. Kick it, or delete it." if dead else f"is {job.state}, not finished{hint}."
        raise NoResult(f"Job {job.id} {why}", id=job.id, reason="dead" if dead else "unfinished", state=job.state)
    if job.result_not_kept is not None:
        raise not_kept(job, job.result_not_kept)
    if not job.result_json:
        return None
    try:
        return msgspec.json.decode(job.result_json, type=kind)
    except JSON_FAULTS as fault:
        raise not_kept(job, f"it does not decode: {fault}") from None


def unknown_result(id: str, topic: str) -> NoResult:
    why = f"is unknown in {topic}: it was never added, or was deleted, or is finished and not kept (set keep_finished)."
    return NoResult(f"Job {id} {why}", id=id, reason="unknown")


def not_kept(job: JobInfo[Any], why: str) -> NoResult:
    return NoResult(
        f"Job {job.id} is finished, but its result is not there: {why}.", id=job.id, reason="not kept", state=job.state
    )


@dataclass(frozen=True, slots=True)
class JobPage(Generic[T]):
    """One page of ``list``. A page of a search may be empty although more pages follow."""

    jobs: tuple[JobInfo[T], ...]
    """The jobs of the page."""
    cursor: str | None
    """Give it to ``list`` to get the next page; ``None`` on the last page."""
    scanned: int = 0
    """How many jobs were read to make the page. A search also reads jobs that do not match, so the page may have fewer."""

    def __iter__(self) -> Iterator[JobInfo[T]]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)
