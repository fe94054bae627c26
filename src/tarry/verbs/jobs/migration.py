"""Jobs on their way from one topic to another, perhaps on another server: out of their place, taken over there, let go.

    due, dead ──depart──▶ leaving ──arrive──▶ due, dead over there        then ``end_departure``: gone here, or back

Wherever it is broken off, each job is in its place, leaving, or over there: whoever begins again goes on with those that
were leaving. Nobody is handed a job that leaves. Each step is a departure with a word of its own, and the topic over there
keeps what it has told the last one of each place: one that arrives again is told the same, whatever has become of its jobs.
A departure knows where it goes, by the ``identity`` that a topic has in its ``meta``: going on to another topic, where nothing is
known of it, would double what had arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tarry.core.requests import Command, Reply, Request, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.keys import ARRIVING_PARTS, DEPARTING_PARTS, TopicKeys, departing_key, with_arriving, with_departing
from tarry.verbs.jobs import settings, views
from tarry.verbs.jobs.context import TopicContext
from tarry.verbs.jobs.partition import PartitionVerbs
from tarry.verbs.jobs.partitions import group_by_partition, partition_of_name
from tarry.verbs.jobs.stats import Stats
from tarry.verbs.schedules import migration as planning

DEPART = Script("migration/depart", args=("limit", "nonce", "overtaken", "above"), keys=DEPARTING_PARTS)
DEPART_END = Script("migration/end_departure", args=("departure",), item=("id", "arrived"), keys=DEPARTING_PARTS)
ARRIVE = Script("migration/arrive", args=("departure",), item=("id", "place", "value", "run"), keys=ARRIVING_PARTS)
STEP = 200
Row = tuple[bytes, bytes, bytes, bytes | None]
HERE, THERE = 0, 1
MigrationSteps = Generator[tuple[int, Request], Any, "Migrated"]
"""A flow over two servers: each request says which of them it is for."""


class LateDeparture(NamedTuple):
    """A departure that is late where it goes: a later one of the same place has arrived there, number ``by``."""

    departure: bytes = b""
    by: int = 0


NOT_LATE = LateDeparture()


@dataclass(frozen=True, slots=True)
class Migrated:
    """What ``migrate`` did, or would do."""

    moved: int
    refused: int
    """Other jobs have their ids over there; they stay where they were."""
    reserved: int
    """In somebody's hands: they stay too; begin again when they are finished."""
    schedules: int = 0
    schedules_refused: int = 0
    """Others have their names over there, or they are damaged; they go on where they were."""
    options: tuple[str, ...] = ()
    """What ``configure`` had set here and not over there, where it holds now, too."""


class Goal(NamedTuple):
    """The topic that a departure goes to."""

    identity: bytes
    """Its own, whatever URL or name it is reached by; empty: it has none yet."""
    name: bytes

    def word(self, word: bytes) -> bytes:
        """A new word of a departure, which says where it goes."""
        return b"%b@%b %b" % (word, self.identity, self.name)

    def refuse(self, what: str, departure: bytes) -> None:
        """Raises ``BadInput`` for a departure that goes somewhere else. One of 0.1.0 does not say where."""
        identity, _, name = departure.partition(b"@")[2].partition(b" ")
        if identity and identity != self.identity:
            raise BadInput(
                f"{what}: some are on their way to another topic ({name.decode('utf-8', 'replace')}), by a move that was broken off or is "
                f"running, and may be there already. Run that one to its end first. If that topic is gone for good, say redirect=True "
                f"(--redirect), and they go to this one instead."
            )


def goal_of(
    there: Sequence[PartitionVerbs[Any]], *, dry_run: bool = False
) -> Generator[tuple[int, Request], Any, Goal]:
    """What a departure says of the topic that it goes to, which is given an identity if it has none."""
    first = there[0]
    name = first.keys.due.removeprefix(b"tarry:{").partition(b"}")[0].partition(b"{")[0]
    if not dry_run:
        yield THERE, Command((b"HSETNX", first.keys.meta, b"identity", first.context.ids.new()), int)
    identity: bytes | None = yield THERE, Command((b"HGET", first.keys.meta, b"identity"), lambda reply: reply)
    return Goal(identity or b"-", name)


def depart(keys: TopicKeys, nonce: bytes, late: LateDeparture = NOT_LATE) -> ScriptCall[tuple[bytes, list[Row]]]:
    """A departure, and those that leave now: what somebody left there, or the next. ``word`` is one that no other has."""
    args = b"%d" % STEP, nonce, late.departure, b"%d" % late.by
    return ScriptCall(DEPART, with_departing(keys), args, lambda reply: (reply[0], [tuple(row) for row in reply[1:]]))


def arrive(keys: TopicKeys, departure: bytes, rows: Sequence[Row]) -> ScriptCall[list[bool] | LateDeparture]:
    """They are taken over; ``False`` where another job has the id."""
    items = [word or b"" for row in rows for word in row]

    def decode(reply: Reply) -> list[bool] | LateDeparture:
        return LateDeparture(departure, reply) if isinstance(reply, int) else [bool(one) for one in reply]

    return ScriptCall(ARRIVE, with_arriving(keys), (departure,), decode, items=items, never_merged=True)


def end_departure(keys: TopicKeys, departure: bytes, rows: Sequence[Row], arrived: Sequence[bool]) -> ScriptCall[int]:
    """Those that arrived are gone here, the others back in their places."""
    items = [word for row, there in zip(rows, arrived, strict=True) for word in (row[0], b"%d" % there)]
    return ScriptCall(DEPART_END, with_departing(keys), (departure,), int, items=items, never_merged=True)


def migrate(
    source: Sequence[PartitionVerbs[Any]],
    target: Sequence[PartitionVerbs[Any]],
    *,
    dry_run: bool,
    progress: Callable[[int], object] | None = None,
    most: int | None = None,
    redirect: bool = False,
) -> MigrationSteps:
    """What was configured, the schedules, everything that waits and the dead, of each partition; of jobs no more than
    ``most``, rounded up to a step. A job refused over there ends the journey after its step: it would leave again. Raises
    ``BadInput`` where some are on their way to another topic, unless they are to go on to this one ``redirect``."""
    goal = yield from goal_of(target, dry_run=dry_run)
    if not redirect:
        yield from _refuse_others(source, goal)
    options = yield from _copy_settings(source, target, dry_run=dry_run)
    schedules, stay = yield from _move_schedules(source, target, goal, dry_run=dry_run, redirect=redirect)
    moved = refused = 0
    for one in source:
        late = NOT_LATE
        while not dry_run and not refused and (most is None or moved < most):
            departure, rows = yield HERE, depart(one.keys, goal.word(one.context.ids.new()), late)
            if not rows:
                break
            if not redirect:
                goal.refuse("migrate", departure)
            elif goal.word(b"") not in departure:
                late = LateDeparture(departure)
                continue
            arrived = yield from arrive_each(target, departure, rows)
            if isinstance(arrived, LateDeparture):
                late = arrived
                continue
            yield HERE, end_departure(one.keys, departure, rows, arrived)
            moved += sum(arrived)
            refused += len(rows) - sum(arrived)
            if progress is not None:
                progress(moved)
    reserved = 0
    for one in source:
        left: Stats = yield HERE, views.topic_stats(one.context)
        reserved += left.reserved
        if dry_run:
            between: int = yield HERE, views.count_leaving(one.keys)[0]
            moved += left.delayed + left.ready + left.dead + between
    return Migrated(moved, refused, reserved, schedules, stay, options)


def _refuse_others(here: Sequence[PartitionVerbs[Any]], goal: Goal) -> Generator[tuple[int, Request], Any, None]:
    """Before anything is changed anywhere."""
    for one in here:
        departure: bytes | None = yield HERE, Command((b"HGET", departing_key(one.keys), b""), lambda reply: reply)
        schedules: list[bytes] = yield HERE, planning.on_the_way(one.keys)
        for each in (departure or b"", *schedules):
            goal.refuse("migrate", each)


def arrive_each(
    there: Sequence[PartitionVerbs[Any]], departure: bytes, rows: Sequence[Row]
) -> Generator[tuple[int, Request], Any, list[bool] | LateDeparture]:
    """Each in the partition that its id says. What was told when they arrived before is told again."""
    arrived = [False] * len(rows)
    for index, mine in group_by_partition([row[0] for row in rows], len(there)):
        answers: list[bool] | LateDeparture = yield (
            THERE,
            arrive(there[index].keys, departure, [rows[at] for at in mine]),
        )
        if isinstance(answers, LateDeparture):
            return answers
        for at, answer in zip(mine, answers, strict=True):
            arrived[at] = answer
    return arrived


def _copy_settings(
    source: Sequence[PartitionVerbs[Any]], target: Sequence[PartitionVerbs[Any]], *, dry_run: bool
) -> Generator[tuple[int, Request], Any, tuple[str, ...]]:
    """What is set here and not there is set there. Raises ``BadInput`` before anything moves."""
    ours: list[bytes | None] = yield HERE, settings.read_settings(source[0].keys, source[0].share)
    theirs: list[bytes | None] = yield THERE, settings.read_settings(target[0].keys, target[0].share)
    rules = settings.missing_settings(theirs, ours, len(target))
    for one in reversed(target) if rules and not dry_run else ():  # the first last: it says whether it is done
        yield THERE, settings.apply_settings(one.keys, rules, one.share)
    return tuple(name.decode() for name in rules)


def _move_schedules(
    source: Sequence[PartitionVerbs[Any]],
    target: Sequence[PartitionVerbs[Any]],
    goal: Goal,
    *,
    dry_run: bool,
    redirect: bool,
) -> Generator[tuple[int, Request], Any, tuple[int, int]]:
    """How many moved, and how many stay."""
    moved, stay = 0, set[bytes]()
    for one in source:
        if dry_run:
            for request in planning.count_moving(one.keys):
                moved += yield HERE, request
            continue
        cursor, more = b"0", True
        while more:
            cursor, more, damaged, rows = yield (
                HERE,
                planning.depart(one.keys, cursor, goal.word(one.context.ids.new())),
            )
            if not redirect:
                for _, kept in rows:
                    goal.refuse("migrate", kept.partition(b"\n")[0])
            arrived = dict.fromkeys((row[0] for row in rows), False)
            for index, other in enumerate(target):
                mine = [row for row in rows if partition_of_name(row[0], len(target)) == index]
                if mine:
                    answers: list[bool] = yield THERE, planning.arrive(other.keys, mine)
                    arrived.update(zip((id for id, _ in mine), answers, strict=True))
            if rows:
                yield HERE, planning.end_departure(one.keys, rows, arrived)
            moved += sum(arrived.values())
            stay |= {*damaged, *arrived}
            stay -= {id for id, target in arrived.items() if target}
    return moved, len(stay)


def refuse_same_topic(same_server: bool, source: TopicContext[Any], target: TopicContext[Any]) -> None:
    """Raises ``BadInput`` where nothing can move to."""
    names.refuse_dots(target.name, "to")
    if same_server and source.keys == target.keys:
        raise BadInput("migrate: a topic cannot move into itself.")
