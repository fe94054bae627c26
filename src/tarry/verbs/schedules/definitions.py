"""Defining schedules: put, get, list, pause, resume, delete; and declarations by the code of a worker.

The first occurrence counts from the server's clock, so each verb first reads the schedule and the time from the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Literal

import msgspec

from tarry.core.flows import gather
from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.keys import SCHEDULE_PARTS, TopicKeys, part_key
from tarry.verbs.schedules import recurrences
from tarry.verbs.schedules.records import Missed, ScheduleOptions, StoredSchedule, id_of, stored_schedule
from tarry.verbs.schedules.recurrences import Recurrence

GET = Script("schedules/get", item=("id",), keys=SCHEDULE_PARTS)
LIST = Script("schedules/list", args=("cursor", "limit"), keys=SCHEDULE_PARTS)
PUT = Script("schedules/put", item=("id", "rhythm", "about", "value", "next", "after"), keys=SCHEDULE_PARTS)
SET_STATE = Script("schedules/set_state", args=("what",), item=("id", "next", "after"), keys=SCHEDULE_PARTS)
DECLARE = Script(
    "schedules/declare", item=("id", "version", "rhythm", "about", "value", "next", "after"), keys=SCHEDULE_PARTS
)
_STEP = b"200"
AS_IT_IS, TO_CHANGE, NEWER_IS_ABOUT, TAKEN = range(4)
"""The answers of the script ``declare`` for each schedule."""


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """A schedule as it is put or declared. ``first`` is its first occurrence, if given."""

    id: str
    recurrence: Recurrence
    missed: Missed
    value: bytes
    first: int | None = None

    @property
    def encoded(self) -> tuple[bytes, bytes, bytes]:
        return self.recurrence.encode(), msgspec.json.encode(ScheduleOptions(self.missed)), self.value

    @property
    def version(self) -> bytes:
        """A hash of the definition: equal definitions have the same version."""
        return sha1(b"\0".join(self.encoded), usedforsecurity=False).hexdigest()[:16].encode()

    def start(self, now: int) -> tuple[bytes, bytes]:
        """The first occurrence after now, and the moment that it is counted from."""
        after = now
        if self.first is not None:
            after = self.first - (self.recurrence.every_us or 1)
        following = recurrences.next_occurrence(self.recurrence, after)
        if following is None:
            raise BadInput(f"schedule {self.id}: it never comes again.")
        return b"%d" % following, b"%d" % after


def _read(keys: TopicKeys, ids: Sequence[bytes]) -> ScriptCall[tuple[int, list[StoredSchedule | None]]]:
    def decode(reply: Reply) -> tuple[int, list[StoredSchedule | None]]:
        now, declared, *rows = reply
        return now, [None if row is None else stored_schedule(row, now, int(declared or 0)) for row in rows]

    return ScriptCall(GET, GET.keys_for(keys), (), decode, items=ids, reply_header=2)


def count_schedules(keys: TopicKeys) -> Command[int]:
    """How many schedules a topic has."""
    return Command((b"HLEN", part_key(keys, "plans")), int)


def get_schedule(keys: TopicKeys, id: str) -> Flow[StoredSchedule | None]:
    _, stored = yield from ask(_read(keys, [id_of(id)]))
    return stored[0]


def put_schedule(keys: TopicKeys, definition: ScheduleDefinition) -> Flow[StoredSchedule]:
    """Creates or replaces a schedule. Raises ``BadInput`` if code declares it."""
    id = id_of(definition.id)
    now, _ = yield from ask(_read(keys, [id]))
    item = (id, *definition.encoded, *definition.start(now))
    done = yield from ask(ScriptCall(PUT, PUT.keys_for(keys), (), list, items=item))
    if not done[0]:
        raise BadInput(f"schedule {definition.id}: a worker's code declares it; change it there, or pause it.")
    _, stored = yield from ask(_read(keys, [id]))
    if stored[0] is None:
        raise BadInput(f"schedule {definition.id}: it was deleted meanwhile.")
    return stored[0]


def list_all(partitions: Sequence[TopicKeys]) -> Flow[list[StoredSchedule]]:
    """All schedules of some partitions, by their next occurrence; paused ones last. Damaged ones are included."""
    by_partition = yield from gather(map(_list_partition, partitions))
    schedules = [schedule for some in by_partition for schedule in some]
    return sorted(schedules, key=lambda schedule: (schedule.next is None, schedule.next, schedule.record.id))


def _list_partition(keys: TopicKeys) -> Flow[list[StoredSchedule]]:
    stored: dict[str, StoredSchedule] = {}
    cursor = b"0"
    while True:
        now, declared, cursor, *rows = yield from ask(ScriptCall(LIST, LIST.keys_for(keys), (cursor, _STEP), list))
        for row in rows:
            schedule = stored_schedule(row, now, int(declared or 0))
            stored[schedule.record.id] = schedule
        if cursor == b"0":
            return list(stored.values())


def set_state(keys: TopicKeys, id: str, what: Literal["pause", "resume", "delete"]) -> Flow[bool]:
    """Pauses, resumes or deletes a schedule. Returns whether it exists."""
    raw, start = id_of(id), (b"", b"0")
    if what == "resume":
        now, stored = yield from ask(_read(keys, [raw]))
        if stored[0] is None:
            return False
        if stored[0].record.damaged:
            raise BadInput(
                f"schedule {id}: it is damaged, or a newer version of tarry wrote it; upgrade, put it again, or delete it."
            )
        start = _resume_at(stored[0], now)
    done = yield from ask(ScriptCall(SET_STATE, SET_STATE.keys_for(keys), (what.encode(),), list, items=(raw, *start)))
    return bool(done[0])


def _resume_at(schedule: StoredSchedule, now: int) -> tuple[bytes, bytes]:
    """The next occurrence after a pause: occurrences in the pause are left out, and an interval keeps its phase."""
    recurrence, after = schedule.record.recurrence, schedule.record.after
    if recurrence.every_us:
        after += max(now - after, 0) // recurrence.every_us * recurrence.every_us
    else:
        after = max(after, now)
    following = recurrences.next_occurrence(recurrence, after)
    return b"" if following is None else b"%d" % following, b"%d" % after


@dataclass(frozen=True, slots=True)
class DeclareReply:
    """The result of a declaration: ids that a newer version declares, ids that are taken, and whether code has any schedule in
    the topic."""

    older: tuple[str, ...]
    conflicting: tuple[str, ...]
    any_from_code: bool


def declare_schedules(keys: TopicKeys, schedules: Sequence[ScheduleDefinition]) -> Flow[DeclareReply]:
    """Declares the schedules of a worker's code in one partition; changes those that are new."""
    places = DECLARE.keys_for(keys)
    by_id = {definition.id: definition for definition in schedules}
    items = [arg for new in schedules for arg in (id_of(new.id), new.version, *new.encoded, b"", b"0")]
    now, count, *verdicts = yield from ask(ScriptCall(DECLARE, places, (), list, items=items, never_merged=True))
    answers = dict(zip(by_id, verdicts, strict=True))
    changed = [by_id[id] for id, verdict in answers.items() if verdict == TO_CHANGE]
    if changed:
        items = [arg for new in changed for arg in (id_of(new.id), new.version, *new.encoded, *new.start(now))]
        _, count, *verdicts = yield from ask(ScriptCall(DECLARE, places, (), list, items=items, never_merged=True))
        answers.update(zip((new.id for new in changed), verdicts, strict=True))
    return DeclareReply(
        tuple(id for id, verdict in answers.items() if verdict == NEWER_IS_ABOUT),
        tuple(id for id, verdict in answers.items() if verdict == TAKEN),
        bool(count),
    )
