"""Schedules as a user sees them: what is stored of one, with the job that it adds, and when it adds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from tarry.errors import BadInput
from tarry.values.durations import Duration, as_datetime, as_timedelta, moment_us
from tarry.values.other_words import HidesOtherWords
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import job_fields as contents
from tarry.verbs.jobs import records
from tarry.verbs.schedules import recurrences
from tarry.verbs.schedules.records import Missed, StoredSchedule, missed_of
from tarry.verbs.schedules.recurrences import Recurrence

_UNSENT = bytes(7)
"""The date, which the script writes before what was sent."""


@dataclass(frozen=True, slots=True)
class Schedule(metaclass=HidesOtherWords):
    """A schedule as it was when it was read."""

    _for_modules = ("encoded", "head")
    topic: str
    """The topic to which the schedule adds jobs."""
    id: str
    """The schedule's name, which is unique in the topic."""
    every: timedelta | None
    """The interval between two jobs; ``None`` if the schedule has a ``cron`` expression."""
    cron: str | None
    """The cron expression, such as ``0 9 * * mon``; ``None`` if the schedule has an interval."""
    tz: str | None
    """The time zone of the cron expression, such as ``Europe/Berlin``; ``None`` for UTC, or if the schedule has an interval."""
    missed: Missed
    """The rule for occurrences that were missed because no client popped: no job (``skip``), one job for the last of them (``once``),
    or a job for each (``all``)."""
    next: datetime | None
    """The next occurrence; ``None`` while the schedule is paused. If it is in the past, no client has popped since that moment, or the topic is full."""
    paused: bool
    """Whether the schedule is paused."""
    fired: int
    """How many jobs the schedule has added."""
    skipped: int
    """How many occurrences were missed and got no job."""
    from_code: bool
    """Whether the code of a worker declares the schedule."""
    orphaned: bool
    """Whether code declared the schedule earlier, and the code of no running worker declares it now."""
    version: str | None
    """A text that identifies the definition that code declared last; ``None`` if the schedule was put by hand."""
    declared: datetime | None = field(compare=False)
    """When code last declared the schedule; ``None`` if it was put by hand."""
    changed: datetime
    """When the schedule was last changed."""
    damaged: bool
    """Whether the stored schedule cannot be read: it is damaged, or was written by a newer tarry. Put it again, or delete it."""
    last: datetime | None
    """The last occurrence that has passed since the schedule was changed: it got a job, was missed, or fell into a pause."""
    _codec: BodyCodec[Any] = field(repr=False, compare=False)
    _recurrence: Recurrence = field(repr=False)
    _record: contents.Record = field(repr=False)
    """The record of its jobs."""

    def following(self, limit: int, after: datetime) -> list[datetime]:
        """The first ``limit`` occurrences that come after a moment; none while the schedule is paused. Raises ``BadInput`` if this machine
        does not know the time zone."""
        if self.next is None or self.damaged:
            return []
        found = recurrences.next_occurrences(self._recurrence, moment_us(self.next), moment_us(after), limit)
        return [as_datetime(at) for at in found]

    def missed_by(self, moment: datetime, limit: int) -> list[datetime]:
        """The missed occurrences that would get a job if the next client popped at ``moment``. By the rule ``missed`` these are none, the
        last one, or all.

        Returns at most ``limit`` occurrences, the earliest first. Raises ``BadInput`` if this machine does not know the time zone.
        """
        if self.next is None or self.damaged:
            return []
        from tarry.verbs.schedules import fire  # most processes fire none

        found: list[int] = []
        after = moment_us(self.next) - (self._recurrence.every_us or 1)
        while len(found) < limit:
            due, after, _ = fire.occurrences(self._recurrence, self.missed, after, moment_us(moment))
            if not due:
                break
            found += due
        return [as_datetime(at) for at in found[:limit]]

    @property
    def priority(self) -> int:
        """The priority of the schedule's jobs."""
        return self.head.priority

    @property
    def key(self) -> str | None:
        """The key of the schedule's jobs."""
        return self.head.key

    @property
    def max_lateness(self) -> timedelta | None:
        """The maximum lateness of the schedule's jobs; ``None`` if they have that of the topic."""
        return None if self.head.max_lateness_us is None else as_timedelta(self.head.max_lateness_us)

    @property
    def body(self) -> Any:
        """The body of the schedule's jobs. Raises ``BodyError`` if it cannot be decoded."""
        return self._codec.decode(*self.encoded)

    @property
    def encoded(self) -> tuple[bytes, int]:
        """The body of its jobs as it is stored, and the flag that says what it is."""
        return records.body_of(self._record)

    @property
    def raw(self) -> bytes:
        """The body of the schedule's jobs, as the bytes that are stored."""
        return self.encoded[0]

    @property
    def head(self) -> contents.JobContents:
        """The options of its jobs."""
        return records.unpack_head(self._record)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the schedule's jobs."""
        return records.unpack_headers(self.head.headers)


class Timing(Struct, frozen=True):
    """When a schedule adds jobs, as it was given."""

    every: Duration | None = None
    cron: str | None = None
    tz: str = "UTC"
    first: datetime | None = None
    missed: Missed = "once"


def check_timing(timing: Timing) -> tuple[Recurrence, int | None]:
    """The recurrence of a schedule, and its first moment in µs. Raises ``BadInput``."""
    recurrence = recurrences.make_recurrence(timing.every, timing.cron, timing.tz)
    if timing.first is not None and timing.cron is not None:
        raise BadInput("first: for every=; a cron expression says itself when it begins.")
    missed_of(timing.missed)
    return recurrence, None if timing.first is None else moment_us(timing.first, "first")


def make_schedule(topic: str, codec: BodyCodec[Any], one: StoredSchedule) -> Schedule:
    plan, recurrence, last = one.record, one.record.recurrence, one.record.last
    return Schedule(
        topic=topic,
        id=plan.id,
        every=as_timedelta(recurrence.every_us) if recurrence.every_us else None,
        cron=recurrence.cron or None,
        tz=recurrence.tz if recurrence.cron else None,
        missed=plan.options.missed,
        next=None if one.next is None else as_datetime(one.next),
        paused=plan.paused,
        fired=plan.fired,
        skipped=plan.skipped,
        from_code=one.from_code,
        orphaned=one.orphaned,
        version=one.version,
        declared=None if one.declared is None else as_datetime(one.declared),
        changed=as_datetime(plan.changed),
        damaged=plan.damaged,
        last=None if last is None else as_datetime(last),
        _codec=codec,
        _recurrence=recurrence,
        _record=_UNSENT + plan.value,
    )
