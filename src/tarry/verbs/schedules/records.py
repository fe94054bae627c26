"""The stored form of a schedule; lua/lib/schedule.lua reads and writes the same.

┌ format 1 ┬ paused 1 ┬ after d ┬ changed d ┬ fired I ┬ skipped I ┬ length H ┬ length I ┬ rhythm ┬ about ┬ head, body ┐
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any, Literal, get_args

import msgspec

from tarry.errors import BadInput
from tarry.values import names
from tarry.verbs.schedules import recurrences
from tarry.verbs.schedules.recurrences import Recurrence

Missed = Literal["skip", "once", "all"]
"""The handling of missed occurrences: none, one job for the last, or one for each (of the last 1,000)."""

FORMAT = 1
_HEAD = Struct("<BBddIIHI")
LONGEST_ID = 160
"""In bytes: a job's id is the schedule's id and its occurrence."""
LEASE_US = 150_000_000
"""A declaration that was not renewed for this time has ended; lua/schedules/declare.lua has the same."""


LONGEST_WAIT_US = 60_000_000
"""After this time at the latest an occurrence that is past is tried again; lua/schedules/fire.lua has the same."""


class ScheduleOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Further options of a schedule, stored as JSON."""

    missed: Missed = "once"


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as it is stored."""

    id: str
    paused: bool
    after: int
    changed: int
    fired: int
    skipped: int
    recurrence: Recurrence
    options: ScheduleOptions
    value: bytes
    """The head and body of its jobs, as they are sent."""
    damaged: bool = False
    """A schedule that cannot be read: only its name and its next occurrence are known."""

    @property
    def last(self) -> int | None:
        """The last occurrence that was handled since the schedule was changed, if it is known."""
        if self.after <= self.changed or not (self.fired or self.skipped):
            return None
        if self.recurrence.every_us:
            return self.after
        try:  # by calendar `after` may be the moment of a resume
            found, _ = recurrences.last_occurrences(self.recurrence, self.changed, self.after, 1)
        except BadInput:
            return None
        return found[0] if found else None


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule as it is stored, its next occurrence, and its declaration."""

    record: ScheduleRecord
    next: int | None
    from_code: bool
    orphaned: bool
    version: str | None
    declared: int | None
    """The version of the definition that code declared last, and when."""


_OPTIONS = msgspec.json.Decoder(ScheduleOptions)


def unpack(id: bytes, stored: bytes) -> ScheduleRecord:
    """Parses a schedule. Raises ``BadInput`` if it is damaged, or written by a newer version."""
    if len(stored) >= _HEAD.size and stored[0] != FORMAT:
        raise BadInput(f"schedule {_text(id)}: a newer version of tarry wrote it; upgrade this process, or delete it.")
    try:
        _, paused, after, changed, fired, skipped, r, a = _HEAD.unpack_from(stored)
        at = _HEAD.size
        recurrence, about = recurrences.decode(stored[at : at + r]), _OPTIONS.decode(stored[at + r : at + r + a])
    except Exception as fault:
        raise BadInput(f"schedule {_text(id)}: it is damaged; delete it.") from fault
    value = stored[at + r + a :]
    return ScheduleRecord(
        id=id.decode(),
        paused=bool(paused),
        after=int(after),
        changed=int(changed),
        fired=fired,
        skipped=skipped,
        recurrence=recurrence,
        options=about,
        value=value,
    )


def unpack_damaged(id: bytes, stored: bytes) -> ScheduleRecord:
    """Parses a schedule; of a damaged one, what is left."""
    try:
        return unpack(id, stored)
    except BadInput:
        name = id.decode("utf-8", "replace")
        return ScheduleRecord(
            id=name,
            paused=False,
            after=0,
            changed=0,
            fired=0,
            skipped=0,
            recurrence=Recurrence(),
            options=ScheduleOptions(),
            value=b"",
            damaged=True,
        )


def _text(id: bytes) -> str:
    return id.decode("utf-8", "replace")


def moments_of(stored: bytes) -> tuple[int, int]:
    """``after`` and ``changed`` of a stored schedule that is long enough."""
    _, _, after, changed, *_ = _HEAD.unpack_from(stored)
    return int(after), int(changed)


def stored_schedule(row: list[Any], now: int, declared_us: int) -> StoredSchedule:
    """Parses a row of the scripts ``get`` and ``list``."""
    id, stored, score, declaration = row
    record = unpack_damaged(id, stored)
    next = None if score is None else _next(record, int(float(score)), now)
    if declaration is None:
        return StoredSchedule(record, next, from_code=False, orphaned=False, version=None, declared=None)
    affirmed, version = declaration.split()[:2]
    orphaned = declared_us - int(affirmed) > LEASE_US
    return StoredSchedule(record, next, True, orphaned, version.decode(), int(affirmed))


def _next(record: ScheduleRecord, tried_at: int, now: int) -> int:
    """The next occurrence. One that is past is tried again soon: a client is about to add its job, or the topic is full."""
    if record.damaged or not now < tried_at <= now + LONGEST_WAIT_US:
        return tried_at
    try:
        found = recurrences.next_occurrence(record.recurrence, record.after)
    except BadInput:  # this machine does not know the time zone
        return tried_at
    return tried_at if found is None or found > now else found


def id_of(value: str) -> bytes:
    raw = names.check_name(value, "id")
    if len(raw) > LONGEST_ID:
        raise BadInput(f"id: it has {len(raw)} bytes of UTF-8; at most {LONGEST_ID} are allowed.")
    if any(char.isspace() for char in value):
        raise BadInput(f"id: {value!r} contains a blank; use - or _ instead.")
    return raw


def missed_of(value: str) -> Missed:
    if value not in get_args(Missed):
        raise BadInput(f'missed: {value!r} is unknown; it is "skip", "once" or "all".')
    return value  # type: ignore[return-value]  # it is one of them
