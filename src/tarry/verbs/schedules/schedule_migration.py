"""Moving schedules from one topic to another, perhaps on another server.

    plans ──depart──▶ moving ──arrive──▶ plans of the target       then ``end_departure``: deleted here, or put back

If the move is interrupted anywhere, a schedule is here, in ``moving``, or in the target, and fires in one place at most; a new
call
continues with those in ``moving``. A repeated departure gets the same answers, whatever has become of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from tarry.core.requests import Command, Reply, Request, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import MOVING_PARTS, TopicKeys, part_key
from tarry.verbs.schedules import records
from tarry.verbs.schedules.definitions import LIST

DEPART = Script("migration/schedule_depart", args=("cursor", "limit", "nonce"), keys=MOVING_PARTS)
ARRIVE = Script("migration/schedule_arrive", item=("id", "kept"), keys=MOVING_PARTS)
DEPART_END = Script("migration/schedule_end_departure", item=("id", "departure", "arrived"), keys=MOVING_PARTS)
_STEP = b"20"
Row = tuple[bytes, bytes]
Departure = tuple[bytes, bool, list[bytes], list[Row]]
"""The next cursor, whether there are more, the damaged ones, which stay, and those that leave now."""


def depart(keys: TopicKeys, cursor: bytes, nonce: bytes) -> ScriptCall[Departure]:
    """Takes the next schedules out: those that an interrupted departure left in ``moving``, or the next ones."""

    def decode(reply: Reply) -> Departure:
        following, more, stay, *rows = reply
        return following, bool(more), stay, [tuple(row) for row in rows]

    return ScriptCall(DEPART, DEPART.keys_for(keys), (cursor, _STEP, nonce), decode)


def arrive(keys: TopicKeys, rows: Sequence[Row]) -> ScriptCall[list[bool]]:
    """Adds schedules to the target; ``False`` for each whose id is taken."""
    items = [arg for row in rows for arg in row]
    return ScriptCall(
        ARRIVE, ARRIVE.keys_for(keys), (), lambda reply: [bool(one) for one in reply], items=items, never_merged=True
    )


def end_departure(keys: TopicKeys, rows: Sequence[Row], arrived: Mapping[bytes, bool]) -> ScriptCall[int]:
    """Deletes the schedules that arrived; the others go on here."""
    items = [arg for id, kept in rows for arg in (id, kept.partition(b"\n")[0], b"%d" % arrived[id])]
    return ScriptCall(DEPART_END, DEPART_END.keys_for(keys), (), int, items=items, never_merged=True)


def on_the_way(keys: TopicKeys) -> Command[list[bytes]]:
    """The departures in ``moving``."""
    return Command(
        (b"HGETALL", part_key(keys, "moving")), lambda reply: [kept.partition(b"\n")[0] for kept in reply[1::2]]
    )


def first_of_which(keys: TopicKeys, holds: Callable[[bytes], bool]) -> Generator[Request, Any, str | None]:
    """The id of a schedule, here or in ``moving``, for whose value that holds, if there is one."""
    kept = iter((yield Command((b"HGETALL", part_key(keys, "moving")), list)))
    rows = [(id, value.split(b"\n", 3)[3]) for id, value in zip(kept, kept, strict=True)]
    cursor = b""
    while True:
        for id, stored, *_ in rows:
            record = records.unpack_damaged(id, stored)
            if record.value and holds(record.value):
                return record.id
        if cursor == b"0":
            return None
        _, _, cursor, *rows = yield ScriptCall(LIST, LIST.keys_for(keys), (cursor or b"0", _STEP), list)


def count_moving(keys: TopicKeys) -> list[Command[int]]:
    """The numbers of schedules here, and in ``moving``."""
    return [Command((b"HLEN", part_key(keys, part)), int) for part in ("plans", "moving")]
