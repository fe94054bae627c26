"""The options of ``add``: as they were given, and as the script takes them.

Every way to add jobs (handle, task, HTTP request, command, line of a file, schedule) makes a ``JobOptions``; tests/clients/test_options.py
compares the ways. Where ``None`` has a meaning of its own, such as no limit, ``UNSET`` is an option that is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

from msgspec import UNSET, Struct, UnsetType

from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND, Duration, duration_us, moment_us
from tarry.verbs.jobs import records
from tarry.verbs.jobs.job_fields import NO_LIMIT, NO_NONCE, JobContents

T = TypeVar("T")
IfExists = Literal["error", "keep", "once", "replace", "update"]
"""The behaviour of ``add`` when a living or dead job has the id; ``once`` sees finished jobs that are kept, too."""
Durability: TypeAlias = "Literal['replicated', 'fsynced'] | int | None"

ERROR_MARK = b"e"
_MARKS: dict[str, bytes] = {"error": ERROR_MARK, "keep": b"k", "once": b"k", "replace": b"r", "update": b"u"}
LONGEST_KEY = 200
HORIZON_US = 10_500_000
"""As in lua/lib/clock.lua: what is due later changes no alarm."""
NEW_MARK = b"n"
"""The mark of a job whose id tarry made: no other job has it. With this and ``ERROR_MARK`` a job is added only if its id is new."""
LARGE, LATER, SOON, ONCE, WITH_KEY = range(5)
"""The scripts that add one job: a large one, or also a small one, for a job due beyond the horizon or at any time; ``ONCE`` asks the
history, too. ``leases.Calls`` is in this order."""
_REPLACE_NONCE_MARK = b"s"
_LATEST_MARK = b"l%d "
"""Replaces, and is due at the latest so many µs after the first event."""


class JobOptions(Struct, frozen=True):
    """The options of one call of ``add`` or ``add_many``, or of a schedule's jobs, as they were given."""

    delay: Duration | UnsetType = UNSET
    at: datetime | None = None
    if_exists: IfExists = "error"
    latest: Duration | None = None
    ttr: Duration | None = None
    max_attempts: int | UnsetType | None = UNSET
    headers: Mapping[str, str] | None = None
    max_lateness: Duration | None = None
    priority: int = 0
    key: str | None = None
    durability: Durability = None

    def check(self) -> None:
        """Raises ``BadInput``."""
        self.encode()

    def encode(self) -> EncodedOptions:
        """Checks and encodes them, all but ``durability``, which is not stored. Raises ``BadInput``."""
        if self.at is None and self.headers is None and self.key is None and self.latest is None:
            try:
                return _encode_common(
                    self.delay, self.if_exists, self.ttr, self.max_attempts, self.max_lateness, self.priority
                )
            except TypeError:
                pass  # not hashable, and so wrong: the checks below raise the error
        return _encode(self)

    @staticmethod
    def of(head: JobContents) -> JobOptions:
        """The options that were stored with a job, for another one. Raises ``BodyError`` if its headers are damaged."""
        return JobOptions(
            ttr=timedelta(milliseconds=head.ttr_ms) if head.ttr_ms else None,
            max_attempts=head.given_max_attempts,
            headers=records.unpack_headers(head.headers) or None,
            max_lateness=None if head.max_lateness_us is None else timedelta(microseconds=head.max_lateness_us),
            priority=head.priority,
            key=head.key,
        )


@dataclass(frozen=True, slots=True)
class NewJob(Generic[T]):
    """A job for ``add_many`` with options of its own. An option that the job does not have is taken from the call."""

    body: T
    """The value that the job's handler gets."""
    delay: Duration | None = field(default=None, kw_only=True)
    """How long until the job is due; ``None`` for the ``delay`` or ``at`` of the call."""
    at: datetime | None = field(default=None, kw_only=True)
    """When the job is due, instead of ``delay``: a datetime with a time zone."""
    id: str | None = field(default=None, kw_only=True)
    """The job's id; ``None`` if tarry is to make one."""
    ttr: Duration | None = field(default=None, kw_only=True)
    """The job's time to run."""
    max_attempts: int | UnsetType | None = field(default=UNSET, kw_only=True)
    """How often the job may be handed out; ``None`` for no limit. The default is the option of the call."""
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    """A map of strings that is stored beside the body."""
    max_lateness: Duration | None = field(default=None, kw_only=True)
    """How late the job may be handed out. If it would be later, it becomes dead instead."""
    priority: int | None = field(default=None, kw_only=True)
    """0 to 3. Of the due jobs of a topic, those with the highest priority are handed out first."""
    key: str | None = field(default=None, kw_only=True)
    """A text such as a customer's name, at most 200 bytes. The topic's limits for keys apply to all jobs with the same key."""


class EncodedOptions(NamedTuple):
    """The options of one call, checked and encoded for the script."""

    mark: bytes
    due_time: bytes
    contents: JobContents
    """Those that are stored with each job."""
    json_head: bytes
    """The head of a job with these options, a JSON body and no nonce."""
    scripts: int
    """``LARGE``, ``LATER``, ``SOON``, ``ONCE`` or ``WITH_KEY``: what adds one job with an id."""
    of_new: tuple[bytes, bytes, int, str]
    """Of one job without an id: mark and due time, head, what adds it, and why it is refused (empty: it is not)."""
    latest_us: int | None = None
    """After the first event; ``None`` if not given."""

    @property
    def needs_id(self) -> str:
        """Why a job without an id is refused; empty: it is not."""
        return self.of_new[3]

    def head(self, flags: int, nonce: bytes) -> bytes:
        if not flags and nonce is NO_NONCE:
            return self.json_head
        return records.change_head(self.json_head, flags, nonce)

    def of_job(self, job: NewJob[Any], flags: int, nonce: bytes) -> tuple[bytes, bytes]:
        """When one of many jobs is due, and its head: its own options win over these. Raises ``BadInput``."""
        due_time = self.due_time if job.delay is None and job.at is None else encode_due_time(job.delay, job.at)
        if self.latest_us is not None:
            _check_latest(self.latest_us, due_time)
        if (
            job.ttr is None
            and job.max_attempts is UNSET
            and job.headers is None
            and job.max_lateness is None
            and job.priority is None
            and job.key is None
        ):
            return due_time, self.head(flags, nonce)
        call = self.contents
        head = records.pack_head(
            flags,
            nonce,
            ttr_ms=call.ttr_ms if job.ttr is None else ttr_ms_of(job.ttr),
            max_attempts=call.max_attempts if job.max_attempts is UNSET else max_attempts_of(job.max_attempts),
            headers=call.headers if job.headers is None else records.pack_headers(job.headers),
            max_lateness_us=call.max_lateness_us if job.max_lateness is None else max_lateness_us(job.max_lateness),
            priority=call.priority if job.priority is None else priority_of(job.priority),
            key=call.key if job.key is None else key_of(job.key),
        )
        return due_time, head

    def replacing_nonce(self, nonce: bytes) -> EncodedOptions:
        """The same options, to replace the job that was added with this nonce; refused if the id now belongs to another one."""
        return self._replace(mark=_REPLACE_NONCE_MARK + nonce, scripts=LARGE)

    def due_within(self, latest: Duration) -> EncodedOptions:
        """The same options, to replace a job and be due ``latest`` after its first event, if that is sooner. Raises ``BadInput``."""
        if self.mark != _MARKS["replace"]:
            raise BadInput(
                'latest: it says how long a job is put off by those that replace it; give if_exists="replace".'
            )
        us = duration_us(latest, "latest", minimum=MILLISECOND)
        _check_latest(us, self.due_time)
        why = "latest: without an id the job replaces none; give id=."
        return self._replace(mark=_LATEST_MARK % us, latest_us=us, of_new=(*self.of_new[:3], why))


def _check_latest(latest_us: int, due_time: bytes) -> None:
    if due_time.isdigit() and int(due_time) > latest_us:
        raise BadInput("latest: it is shorter than the delay; give the longest time from the first event to its run.")


@lru_cache(maxsize=256, typed=True)
def _encode_common(
    delay: Duration | UnsetType,
    if_exists: IfExists,
    ttr: Duration | None,
    max_attempts: int | UnsetType | None,
    max_lateness: Duration | None,
    priority: int,
) -> EncodedOptions:
    given = JobOptions(
        delay=delay,
        if_exists=if_exists,
        ttr=ttr,
        max_attempts=max_attempts,
        max_lateness=max_lateness,
        priority=priority,
    )
    return _encode(given)


def _encode(options: JobOptions) -> EncodedOptions:
    due_time, if_exists = encode_due_time(options.delay, options.at), options.if_exists
    mark = _MARKS.get(if_exists) if isinstance(if_exists, str) else None
    if mark is None:
        raise BadInput(f'if_exists: {if_exists!r} is unknown; it is "error", "keep", "once", "replace" or "update".')
    contents = JobContents(
        ttr_ms=ttr_ms_of(options.ttr),
        max_attempts=max_attempts_of(options.max_attempts),
        headers=records.pack_headers(options.headers),
        max_lateness_us=max_lateness_us(options.max_lateness),
        priority=priority_of(options.priority),
        key=key_of(options.key),
    )
    json_head = records.pack_head(
        0,
        NO_NONCE,
        ttr_ms=contents.ttr_ms,
        max_attempts=contents.max_attempts,
        headers=contents.headers,
        max_lateness_us=contents.max_lateness_us,
        priority=contents.priority,
        key=contents.key,
    )
    why, small = "", LATER if due_time.isdigit() and int(due_time) > HORIZON_US else SOON
    if contents.priority:
        small = LARGE
    elif contents.key is not None:
        small = WITH_KEY
    scripts = small if mark == ERROR_MARK else LARGE
    if if_exists == "once":
        scripts, why = ONCE, 'if_exists: "once" finds a job by its id, and this one has none; give id=.'
    of_new = NEW_MARK + due_time, json_head, small, why
    encoded = EncodedOptions(mark, due_time, contents, json_head, scripts, of_new)
    return encoded if options.latest is None else encoded.due_within(options.latest)


def encode_due_time(delay: Duration | UnsetType | None, at: datetime | None) -> bytes:
    """A delay in microseconds, or ``@`` and a moment, as the scripts expect it."""
    if at is None:
        if delay is UNSET:
            return b"0"
        if delay is None:
            raise BadInput("delay: it is None; write 0 for now, or leave it out.")
        return b"%d" % duration_us(delay)
    if delay is not None and delay is not UNSET:
        raise BadInput("delay and at: give one of the two.")
    return b"@%d" % moment_us(at)


def ttr_ms_of(ttr: Duration | None) -> int:
    """Whole milliseconds, rounded up; 0 if not given."""
    if ttr is None:
        return 0
    ms = -(-duration_us(ttr, "ttr", minimum=MILLISECOND) // MILLISECOND)
    if ms > records.LONGEST_TTR_MS:
        raise BadInput("ttr: longer than 49 days; touch the job from time to time instead.")
    return ms


def max_lateness_us(max_lateness: Duration | None) -> int | None:
    """Microseconds; ``None`` if not given."""
    return None if max_lateness is None else duration_us(max_lateness, "max_lateness", minimum=MILLISECOND)


def max_attempts_of(value: int | UnsetType | None) -> int:
    """As it is stored; 0 if not given. Raises ``BadInput``."""
    if value is None:
        return NO_LIMIT
    if value is UNSET:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1_000_000:
        raise BadInput(f"max_attempts: {value!r}; it is a whole number from 1 to 999,999, or None for no limit.")
    return value


def priority_of(value: int) -> int:
    """Raises ``BadInput``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= records.MOST_PRIORITY:
        raise BadInput(
            f"priority: {value!r}; it is a whole number from 0 (the default) to {records.MOST_PRIORITY}, higher first."
        )
    return value


def key_of(value: str | None) -> str | None:
    """Raises ``BadInput``."""
    if value is None:
        return None
    try:
        if isinstance(value, str) and value and "\0" not in value and len(value.encode()) <= LONGEST_KEY:
            return value
    except UnicodeEncodeError:
        pass
    raise BadInput(
        f"key: {value!r:.60}; it is text of 1 to {LONGEST_KEY} bytes of UTF-8 without NUL, such as the name of a customer. "
        "Leave it out for a job without a key."
    )


DEFAULT_OPTIONS = JobOptions()
ENCODED_DEFAULTS = DEFAULT_OPTIONS.encode()


def check_new_job(job: NewJob[Any]) -> None:
    """Checks the options of one job of several. Raises ``BadInput``."""
    ENCODED_DEFAULTS.of_job(job, 0, NO_NONCE)


DURATIONS = frozenset(name for name, kind in get_type_hints(JobOptions).items() if timedelta in get_args(kind))
"""The names of the options that are durations."""
