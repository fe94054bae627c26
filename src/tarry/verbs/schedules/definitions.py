"""Keeping schedules: put, get, list, pause, resume, delete; and what the code of a worker declares.

The first occurrence counts from the server's clock, so each of these first asks it what is there and what time it is.
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
from tarry.values.keys import SCHEDULE_PARTS, TopicKeys, schedule_keys
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
"""What ``declare_schedules`` answers of each."""


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """A schedule as it is put or declared. ``first`` is its first occurrence, if somebody chose it."""

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
        """Definitions that are alike have the same."""
        return sha1(b"\0".join(self.encoded), usedforsecurity=False).hexdigest()[:16].encode()

    def start(self, now: int) -> tuple[bytes, bytes]:
        """The first occurrence after now, and the moment after which it is the next."""
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
        return now, [None if row is None else stored_schedule(row, int(declared or 0)) for row in rows]

    return ScriptCall(GET, schedule_keys(keys), (), decode, items=ids, reply_header=2)


def count_schedules(keys: TopicKeys) -> Command[int]:
    """How many schedules a topic has."""
    return Command((b"HLEN", schedule_keys(keys)[SCHEDULE_PARTS.index("plans")]), int)


def get_schedule(keys: TopicKeys, id: str) -> Flow[StoredSchedule | None]:
    _, found = yield from ask(_read(keys, [id_of(id)]))
    return found[0]


def put_schedule(keys: TopicKeys, definition: ScheduleDefinition) -> Flow[StoredSchedule]:
    """Defines a schedule, or defines it anew. Raises ``BadInput`` where code declares it."""
    id = id_of(definition.id)
    now, _ = yield from ask(_read(keys, [id]))
    item = (id, *definition.encoded, *definition.start(now))
    done = yield from ask(ScriptCall(PUT, schedule_keys(keys), (), list, items=item))
    if not done[0]:
        raise BadInput(f"schedule {definition.id}: a worker's code declares it; change it there, or pause it.")
    _, found = yield from ask(_read(keys, [id]))
    if found[0] is None:
        raise BadInput(f"schedule {definition.id}: somebody deleted it meanwhile.")
    return found[0]


def list_all(partitions: Sequence[TopicKeys]) -> Flow[list[StoredSchedule]]:
    """All schedules of some partitions, by their next occurrence; paused ones last. Damaged ones are among them."""
    each = yield from gather(map(_of, partitions))
    found = [one for some in each for one in some]
    return sorted(found, key=lambda one: (one.next is None, one.next, one.record.id))


def _of(keys: TopicKeys) -> Flow[list[StoredSchedule]]:
    found: dict[str, StoredSchedule] = {}
    cursor = b"0"
    while True:
        _, declared, cursor, *rows = yield from ask(ScriptCall(LIST, schedule_keys(keys), (cursor, _STEP), list))
        for row in rows:
            one = stored_schedule(row, int(declared or 0))
            found[one.record.id] = one
        if cursor == b"0":
            return list(found.values())


def set_state(keys: TopicKeys, id: str, what: Literal["pause", "resume", "delete"]) -> Flow[bool]:
    """Answers whether there is such a schedule."""
    raw, start = id_of(id), (b"", b"0")
    if what == "resume":
        now, found = yield from ask(_read(keys, [raw]))
        if found[0] is None:
            return False
        if found[0].record.damaged:
            raise BadInput(
                f"schedule {id}: it is damaged, or a newer version of tarry wrote it; upgrade, put it anew, or delete it."
            )
        start = _resume_at(found[0], now)
    done = yield from ask(ScriptCall(SET_STATE, schedule_keys(keys), (what.encode(),), list, items=(raw, *start)))
    return bool(done[0])


def _resume_at(one: StoredSchedule, now: int) -> tuple[bytes, bytes]:
    """Where it goes on: what fell into the pause is left out, and the beat is kept."""
    recurrence, after = one.record.recurrence, one.record.after
    if recurrence.every_us:
        after += max(now - after, 0) // recurrence.every_us * recurrence.every_us
    else:
        after = max(after, now)
    following = recurrences.next_occurrence(recurrence, after)
    return b"" if following is None else b"%d" % following, b"%d" % after


@dataclass(frozen=True, slots=True)
class DeclareReply:
    """What came of a declaration: ids by what was answered, and whether code has any schedule in the topic."""

    older: tuple[str, ...]
    conflicting: tuple[str, ...]
    any_from_code: bool


def declare_schedules(keys: TopicKeys, schedules: Sequence[ScheduleDefinition]) -> Flow[DeclareReply]:
    """Says what the code of a worker has in one place; changes what is new in it."""
    places = schedule_keys(keys)
    said = {one.id: one for one in schedules}
    items = [word for one in schedules for word in (id_of(one.id), one.version, *one.encoded, b"", b"0")]
    now, count, *verdicts = yield from ask(ScriptCall(DECLARE, places, (), list, items=items, never_merged=True))
    answers = dict(zip(said, verdicts, strict=True))
    new = [said[id] for id, verdict in answers.items() if verdict == TO_CHANGE]
    if new:
        items = [word for one in new for word in (id_of(one.id), one.version, *one.encoded, *one.start(now))]
        _, count, *verdicts = yield from ask(ScriptCall(DECLARE, places, (), list, items=items, never_merged=True))
        answers.update(zip((one.id for one in new), verdicts, strict=True))
    return DeclareReply(
        tuple(id for id, verdict in answers.items() if verdict == NEWER_IS_ABOUT),
        tuple(id for id, verdict in answers.items() if verdict == TAKEN),
        bool(count),
    )
