"""Jobs on their way from one topic to another, perhaps on another server: out of their place, taken over there, let go.

    due, dead ──depart──▶ leaving ──arrive──▶ due, dead over there        then ``depart_end``: gone here, or back

Wherever it is broken off, each job is in its place, leaving, or over there: whoever begins again goes on with those that
were leaving. Nobody is handed a job that leaves, and one that arrives twice is known by what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from tarry.errors import BadInput
from tarry.idea.calls import Call, Request
from tarry.idea.scripts import Script
from tarry.verbs.jobs import looking
from tarry.verbs.jobs.face import TopicVerbs
from tarry.verbs.jobs.parting import place_of
from tarry.verbs.jobs.pictures import Stats
from tarry.verbs.jobs.topic import TopicDesk
from tarry.words.keys import TOPIC_PARTS, TopicKeys, departing_key

DEPART = Script("leaving/depart", args=("limit",), keys=(*TOPIC_PARTS, "leaving"))
DEPART_END = Script("leaving/depart_end", item=("id", "arrived"), keys=(*TOPIC_PARTS, "leaving"))
ARRIVE = Script("leaving/arrive", item=("id", "place", "value", "run"), keys=(*TOPIC_PARTS, "leaving"))
STEP = 200
Row = tuple[bytes, bytes, bytes, bytes | None]
HERE, THERE = 0, 1
Journey = Generator[tuple[int, Request], Any, "Migrated"]
"""A flow over two servers: each request says which of them it is for."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """What ``migrate_to`` did, or would do."""

    moved: int
    refused: int
    """Other jobs have their ids over there; they stay where they were."""
    reserved: int
    """In somebody's hands: they stay too; begin again when they are finished."""


def depart(keys: TopicKeys) -> Call[list[Row]]:
    """Those that leave now: what somebody left there, or the next."""
    return Call(DEPART, (*keys, departing_key(keys)), (b"%d" % STEP,), lambda reply: [tuple(row) for row in reply])


def arrive(keys: TopicKeys, rows: Sequence[Row]) -> Call[list[bool]]:
    """They are taken over; ``False`` where another job has the id."""
    items = [word or b"" for row in rows for word in row]
    return Call(
        ARRIVE, (*keys, departing_key(keys)), (), lambda reply: [bool(one) for one in reply], items=items, alone=True
    )


def depart_end(keys: TopicKeys, rows: Sequence[Row], arrived: Sequence[bool]) -> Call[int]:
    """Those that arrived are gone here, the others back in their places."""
    items = [word for row, there in zip(rows, arrived, strict=True) for word in (row[0], b"%d" % there)]
    return Call(DEPART_END, (*keys, departing_key(keys)), (), int, items=items, alone=True)


def migrate(
    here: Sequence[TopicVerbs[Any]],
    there: Sequence[TopicVerbs[Any]],
    *,
    dry_run: bool,
    progress: Callable[[int], object] | None,
) -> Journey:
    """Everything that waits, and the dead, of each partition. A job refused over there ends the journey after its step:
    it would leave again."""
    moved = refused = 0
    for one in here:
        while not dry_run and not refused:
            rows: list[Row] = yield HERE, depart(one.keys)
            if not rows:
                break
            arrived = [False] * len(rows)
            for index, other in enumerate(there):
                mine = [at for at, row in enumerate(rows) if place_of(row[0], len(there)) == index]
                if mine:
                    answers: list[bool] = yield THERE, arrive(other.keys, [rows[at] for at in mine])
                    for at, answer in zip(mine, answers, strict=True):
                        arrived[at] = answer
            yield HERE, depart_end(one.keys, rows, arrived)
            moved += sum(arrived)
            refused += len(rows) - sum(arrived)
            if progress is not None:
                progress(moved)
    reserved = 0
    for one in here:
        left: Stats = yield HERE, looking.stats(one.desk)
        reserved += left.reserved
        if dry_run:
            moved += left.delayed + left.ready + left.dead
    return Migrated(moved, refused, reserved)


def refuse_itself(same_server: bool, here: TopicDesk[Any], there: TopicDesk[Any]) -> None:
    if same_server and here.keys == there.keys:
        raise BadInput("migrate: a topic cannot move into itself.")
