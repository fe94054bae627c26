"""Moving jobs from one topic to another, perhaps on another server: taken out of their state, added there, deleted here.

    due, dead ──depart──▶ leaving ──arrive──▶ due, dead of the target       then ``end_departure``: deleted here, or put back

If the move is interrupted anywhere, each job is in its old place, in ``leaving``, or in the target; a new call continues with
those
in ``leaving``. A job in ``leaving`` is not handed out. Each step is a departure with a unique name. The target keeps its
answers to
the last departure of each source: one that arrives again gets the same answers, whatever has become of its jobs.
A departure's name says where it goes, by the ``identity`` in the target's ``meta``: if it continued to another topic, where
nothing
is known of it, jobs that had arrived would be doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from tarry.core.requests import Command, Reply, Request, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.keys import ARRIVING_PARTS, DEPARTING_PARTS, KEY_PARTS, TopicKeys, part_key, partition_of_name
from tarry.verbs.jobs import settings, views
from tarry.verbs.jobs.partitions import PartitionVerbs, group_by_partition
from tarry.verbs.jobs.records import has_key
from tarry.verbs.jobs.stats import Stats
from tarry.verbs.jobs.topic_context import TopicContext
from tarry.verbs.schedules import schedule_migration

DEPART = Script("migration/depart", args=("limit", "nonce", "overtaken", "above"), keys=(*DEPARTING_PARTS, *KEY_PARTS))
DEPART_END = Script(
    "migration/end_departure", args=("departure",), item=("id", "arrived"), keys=(*DEPARTING_PARTS, *KEY_PARTS)
)
ARRIVE = Script(
    "migration/arrive",
    args=("departure",),
    item=("id", "place", "value", "run", "failed"),
    keys=(*ARRIVING_PARTS, *KEY_PARTS),
)
T = TypeVar("T")
STEP = 200
Row = tuple[bytes, bytes, bytes, bytes | None, bytes | None]
"""id, place, record, run, failed attempts."""
HERE, THERE = 0, 1
MigrationSteps = Generator[tuple[int, Request], Any, "Migrated"]
"""A flow over two servers: each request comes with HERE or THERE."""


class LateDeparture(NamedTuple):
    """A departure that arrived too late: a later one of the same source, number ``by``, has already arrived."""

    departure: bytes = b""
    by: int = 0


NOT_LATE = LateDeparture()


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result of ``migrate`` or ``migrate_queue``. After a dry run the numbers say what would be done."""

    moved: int = 0
    """Jobs, or elements of a queue, that were moved to the target."""
    refused: int = 0
    """Jobs that stay in the source, because the target has jobs with the same ids."""
    reserved: int = 0
    """Reserved jobs, which stay in the source. Call ``migrate`` again when they are finished."""
    schedules: int = 0
    """Schedules that were moved to the target."""
    schedules_refused: int = 0
    """Schedules that stay in the source and continue there, because they are damaged, or because the target has schedules with
    the same names."""
    settings: tuple[str, ...] = ()
    """The names of the topic's options that were copied to the target: those that ``configure`` had set only in the source."""
    poison: int = 0
    """Elements of a queue that could not become jobs, because their bytes could not be decoded. They were set aside;
    ``queue.poison()`` lists them."""


class Destination(NamedTuple):
    """The topic that a departure goes to."""

    identity: bytes
    """The topic's identity, independent of its URL and name; empty: it has none yet."""
    name: bytes

    def departure_name(self, nonce: bytes) -> bytes:
        """The name of a new departure, which says where it goes."""
        return b"%b@%b %b" % (nonce, self.identity, self.name)

    def refuse(self, what: str, departure: bytes) -> None:
        """Raises ``BadInput`` for a departure that goes to another topic."""
        identity, _, name = departure.partition(b"@")[2].partition(b" ")
        if identity and identity != self.identity:
            raise BadInput(
                f"{what}: some jobs are on their way to another topic ({name.decode('utf-8', 'replace')}), by a move that was interrupted or is "
                f"running, and may be there already. Run that move to its end first. If that topic is gone for good, pass redirect=True "
                f"(--redirect) to move them to this one instead."
            )


def destination_of(
    target: Sequence[PartitionVerbs[Any]], *, dry_run: bool = False
) -> Generator[tuple[int, Request], Any, Destination]:
    """The destination for a target topic, which gets an identity if it has none."""
    first = target[0]
    name = first.keys.due.removeprefix(b"tarry:{").partition(b"}")[0].partition(b"{")[0]
    if not dry_run:
        yield THERE, Command((b"HSETNX", first.keys.meta, b"identity", first.context.ids.new()), int)
    identity: bytes | None = yield THERE, Command((b"HGET", first.keys.meta, b"identity"), lambda reply: reply)
    return Destination(identity or b"-", name)


def depart(keys: TopicKeys, nonce: bytes, late: LateDeparture = NOT_LATE) -> ScriptCall[tuple[bytes, list[Row]]]:
    """Takes the next jobs out: those that an interrupted departure left in ``leaving``, or the next ones. Returns the departure
    and its jobs."""
    args = b"%d" % STEP, nonce, late.departure, b"%d" % late.by
    return ScriptCall(DEPART, DEPART.keys_for(keys), args, lambda reply: (reply[0], [tuple(row) for row in reply[1:]]))


def arrive(keys: TopicKeys, departure: bytes, rows: Sequence[Row]) -> ScriptCall[list[bool] | LateDeparture]:
    """Adds the jobs of a departure; ``False`` for each whose id is taken."""
    items = [arg or b"" for row in rows for arg in row]

    def decode(reply: Reply) -> list[bool] | LateDeparture:
        return LateDeparture(departure, reply) if isinstance(reply, int) else [bool(answer) for answer in reply]

    return ScriptCall(ARRIVE, ARRIVE.keys_for(keys), (departure,), decode, items=items, never_merged=True)


def end_departure(keys: TopicKeys, departure: bytes, rows: Sequence[Row], arrived: Sequence[bool]) -> ScriptCall[int]:
    """Deletes the jobs that arrived, and puts the others back."""
    items = [arg for row, has_arrived in zip(rows, arrived, strict=True) for arg in (row[0], b"%d" % has_arrived)]
    return ScriptCall(DEPART_END, DEPART_END.keys_for(keys), (departure,), int, items=items, never_merged=True)


def migrate(
    source: Sequence[PartitionVerbs[Any]],
    target: Sequence[PartitionVerbs[Any]],
    *,
    dry_run: bool,
    progress: Callable[[int], object] | None = None,
    limit: int | None = None,
    redirect: bool = False,
) -> MigrationSteps:
    """Moves the options, the schedules, and all delayed, ready and dead jobs of each partition; at most ``limit`` jobs, rounded
    up to a step. A job that the target refuses ends the move after its step, for it would leave again. Raises ``BadInput`` if
    jobs are on their way to another topic, unless ``redirect``."""
    destination = yield from destination_of(target, dry_run=dry_run)
    if not redirect:
        yield from _refuse_others(source, destination)
    options = yield from _copy_settings(source, target, dry_run=dry_run)
    schedules, stay = yield from _move_schedules(source, target, destination, dry_run=dry_run, redirect=redirect)
    moved = refused = 0
    for partition in source:
        late = NOT_LATE
        while not dry_run and not refused and (limit is None or moved < limit):
            departure, rows = yield (
                HERE,
                depart(partition.keys, destination.departure_name(partition.context.ids.new()), late),
            )
            if not rows:
                break
            if not redirect:
                destination.refuse("migrate", departure)
            elif destination.departure_name(b"") not in departure:
                late = LateDeparture(departure)
                continue
            arrived = yield from arrive_each(target, departure, rows)
            if isinstance(arrived, LateDeparture):
                late = arrived
                continue
            yield HERE, end_departure(partition.keys, departure, rows, arrived)
            moved += sum(arrived)
            refused += len(rows) - sum(arrived)
            if progress is not None:
                progress(moved)
    reserved = 0
    for partition in source:
        left: Stats = yield HERE, views.topic_stats(partition.context)
        reserved += left.reserved
        if dry_run:
            between: int = yield HERE, views.count_leaving(partition.keys)[0]
            moved += left.delayed + left.ready + left.dead + between
    return Migrated(moved, refused, reserved, schedules, stay, options)


def _refuse_others(
    source: Sequence[PartitionVerbs[Any]], destination: Destination
) -> Generator[tuple[int, Request], Any, None]:
    """Raises ``BadInput`` for departures to another topic, before anything is changed."""
    for partition in source:
        departure: bytes | None = yield (
            HERE,
            Command((b"HGET", part_key(partition.keys, "leaving"), b""), lambda reply: reply),
        )
        schedules: list[bytes] = yield HERE, schedule_migration.on_the_way(partition.keys)
        for departing in (departure or b"", *schedules):
            destination.refuse("migrate", departing)


def arrive_each(
    target: Sequence[PartitionVerbs[Any]], departure: bytes, rows: Sequence[Row]
) -> Generator[tuple[int, Request], Any, list[bool] | LateDeparture]:
    """Adds each job to its partition. A repeated departure gets the same answers."""
    arrived = [False] * len(rows)
    for index, positions in group_by_partition([row[0] for row in rows], len(target)):
        answers: list[bool] | LateDeparture = yield (
            THERE,
            arrive(target[index].keys, departure, [rows[at] for at in positions]),
        )
        if isinstance(answers, LateDeparture):
            return answers
        for at, answer in zip(positions, answers, strict=True):
            arrived[at] = answer
    return arrived


def _copy_settings(
    source: Sequence[PartitionVerbs[Any]], target: Sequence[PartitionVerbs[Any]], *, dry_run: bool
) -> Generator[tuple[int, Request], Any, tuple[str, ...]]:
    """Sets the source's options in the target, where it has none. Raises ``BadInput`` before anything moves."""
    if len(target) > 1:
        keys_used: Command[bool] = Command((b"HEXISTS", source[0].keys.meta, b"keys"), bool)
        if (yield HERE, keys_used):
            settings.refuse_keys("key", len(target))
        for partition in source:
            if (id := (yield from _here(schedule_migration.first_of_which(partition.keys, has_key)))) is not None:
                settings.refuse_keys(f"schedule {id}", len(target))
    ours: list[bytes | None] = yield HERE, settings.read_settings(source[0].keys, source[0].share)
    theirs: list[bytes | None] = yield THERE, settings.read_settings(target[0].keys, target[0].share)
    rules = settings.missing_settings(theirs, ours, len(target))
    for partition in (
        reversed(target) if rules and not dry_run else ()
    ):  # the first partition last: it marks the change as complete
        yield THERE, settings.apply_settings(partition.keys, rules, partition.share)
    return tuple(name.decode() for name in rules)


def _here(flow: Generator[Request, Any, T]) -> Generator[tuple[int, Request], Any, T]:
    """Runs a flow on the source's server."""
    answer: Any = None
    while True:
        try:
            request = flow.send(answer)
        except StopIteration as end:
            done: T = end.value
            return done
        answer = yield HERE, request


def _move_schedules(
    source: Sequence[PartitionVerbs[Any]],
    target: Sequence[PartitionVerbs[Any]],
    destination: Destination,
    *,
    dry_run: bool,
    redirect: bool,
) -> Generator[tuple[int, Request], Any, tuple[int, int]]:
    """Moves the schedules. Returns how many moved, and how many stay."""
    moved, stay = 0, set[bytes]()
    for partition in source:
        if dry_run:
            for request in schedule_migration.count_moving(partition.keys):
                moved += yield HERE, request
            continue
        cursor, more = b"0", True
        while more:
            cursor, more, damaged, rows = yield (
                HERE,
                schedule_migration.depart(
                    partition.keys, cursor, destination.departure_name(partition.context.ids.new())
                ),
            )
            if not redirect:
                for _, kept in rows:
                    destination.refuse("migrate", kept.partition(b"\n")[0])
            arrived = dict.fromkeys((row[0] for row in rows), False)
            for index, other in enumerate(target):
                positions = [row for row in rows if partition_of_name(row[0], len(target)) == index]
                if positions:
                    answers: list[bool] = yield THERE, schedule_migration.arrive(other.keys, positions)
                    arrived.update(zip((id for id, _ in positions), answers, strict=True))
            if rows:
                yield HERE, schedule_migration.end_departure(partition.keys, rows, arrived)
            moved += sum(arrived.values())
            stay |= {*damaged, *arrived}
            stay -= {id for id, target in arrived.items() if target}
    return moved, len(stay)


def refuse_same_topic(same_server: bool, source: TopicContext[Any], target: TopicContext[Any]) -> None:
    """Raises ``BadInput`` if source and target are the same topic."""
    if same_server and source.keys == target.keys:
        raise BadInput("migrate: a topic cannot move into itself.")
