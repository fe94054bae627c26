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
"""What becomes of occurrences that nobody was there for: none of them, one job for the last, or each (the last 1,000)."""

FORMAT = 1
_HEAD = Struct("<BBddIIHI")
LONGEST_ID = 160
"""Bytes: a job's id is the schedule's and its occurrence."""
LEASE_US = 150_000_000
"""Code that has not been heard of for so long has gone; lua/schedules/declare.lua has the same."""


class ScheduleOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What else a schedule says of itself."""

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
    """It cannot be read: what is known of it are its name and its next occurrence."""

    @property
    def last(self) -> int | None:
        """The last occurrence that was attended to, if that is known: none since it was changed, and the time zone must be."""
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
    """A plan, and where it is."""

    record: ScheduleRecord
    next: int | None
    from_code: bool
    orphaned: bool
    version: str | None
    declared: int | None
    """Which definition of it code has said last, and when."""


_OPTIONS = msgspec.json.Decoder(ScheduleOptions)


def unpack(id: bytes, stored: bytes) -> ScheduleRecord:
    """Raises ``BadInput`` for what is damaged, or written by a newer version."""
    if len(stored) >= _HEAD.size and stored[0] != FORMAT:
        raise BadInput(f"schedule {_text(id)}: a newer version of tarry wrote it; upgrade this process, or delete it.")
    try:
        _, paused, after, changed, fired, skipped, r, a = _HEAD.unpack_from(stored)
        at = _HEAD.size
        recurrence, about = recurrences.decode(stored[at : at + r]), _OPTIONS.decode(stored[at + r : at + r + a])
    except Exception as fault:
        raise BadInput(f"schedule {_text(id)}: it is damaged; delete it.") from fault
    value = stored[at + r + a :]
    return ScheduleRecord(id.decode(), bool(paused), int(after), int(changed), fired, skipped, recurrence, about, value)


def unpack_damaged(id: bytes, stored: bytes) -> ScheduleRecord:
    """The same; of what is damaged, what is left."""
    try:
        return unpack(id, stored)
    except BadInput:
        name = id.decode("utf-8", "replace")
        return ScheduleRecord(name, False, 0, 0, 0, 0, Recurrence(), ScheduleOptions(), b"", damaged=True)


def _text(id: bytes) -> str:
    return id.decode("utf-8", "replace")


def moments_of(stored: bytes) -> tuple[int, int]:
    """``after`` and ``changed`` of a plan that is long enough."""
    _, _, after, changed, *_ = _HEAD.unpack_from(stored)
    return int(after), int(changed)


def stored_schedule(row: list[Any], declared_us: int) -> StoredSchedule:
    """What ``get`` and ``list`` answer of one schedule."""
    id, stored, score, said = row
    next = None if score is None else int(float(score))
    if said is None:
        return StoredSchedule(
            unpack_damaged(id, stored), next, from_code=False, orphaned=False, version=None, declared=None
        )
    affirmed, version = said.split()[:2]
    orphaned = declared_us - int(affirmed) > LEASE_US
    return StoredSchedule(unpack_damaged(id, stored), next, True, orphaned, version.decode(), int(affirmed))


def id_of(value: str) -> bytes:
    raw = names.check_name(value, "schedule")
    if len(raw) > LONGEST_ID:
        raise BadInput(f"schedule: it has {len(raw)} bytes of UTF-8; at most {LONGEST_ID} are allowed.")
    if any(char.isspace() for char in value):
        raise BadInput(f"schedule: {value!r} holds a blank; write it with - or _.")
    return raw


def new_id_of(value: str) -> bytes:
    """The same for a schedule that may not be there yet."""
    names.refuse_dots(value, "schedule")
    return id_of(value)


def missed_of(value: str) -> Missed:
    if value not in get_args(Missed):
        raise BadInput(f'missed: {value!r} is unknown; it is "skip", "once" or "all".')
    return value  # type: ignore[return-value]  # it is one of them
