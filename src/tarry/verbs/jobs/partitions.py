"""The partitions of a topic: one place, or many. Each partition has its own keys, and in a Cluster its own slot.

    id ──crc32──▶ partition      a verb with ids goes to the partitions of these ids; any other goes to all, in one batch
    schedule@moment ──▶ the partition of the schedule, which adds its jobs there

The number of partitions is asked for once, at the first verb, and remembered; later a topic of one place costs nothing more. If
a topic has been given partitions since, its keys have another type: the server refuses, the number is asked for again, and the
verb is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tarry.core.requests import Command, Flow, ScriptCall, WrongType, ask, flow_of, split_items
from tarry.core.scripts import Script
from tarry.errors import BadInput, StaleReceipt
from tarry.values.durations import Duration
from tarry.values.keys import TopicKeys, partition_of_name
from tarry.verbs import jobs as job_verbs
from tarry.verbs.jobs.topic_context import WHOLE_TOPIC, Share, TopicContext, require_several

if TYPE_CHECKING:
    from tarry.verbs.jobs.pop import PopReply
    from tarry.verbs.jobs.settle import Item, Outcome, SettleVerb

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")
Operation = ScriptCall[R] | Flow[R]
FIND_COUNT = Script("partitions/find", args=("wanted", "called_before"), keys=("meta", "jobs", "wake"))
MOST_PARTITIONS = 1024
_OCCURRENCE = re.compile(rb"(.+)@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z", re.S)
"""How lua/schedules/fire.lua names a job: the schedule's id, and ``occurrence_stamp`` of verbs/schedules/fire.py."""

_last_of = itemgetter(-1)


class KnownPartitions:
    """A client's knowledge of its topics: the number of partitions of each, and the numbers that its user declared."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.declared: dict[str, int] = {}


class PartitionVerbs(Generic[T]):
    """The context of one partition, and the verbs that no topic has. ``share`` says which partition of how many it is."""

    def __init__(self, context: TopicContext[T], holder: bytes, share: Share = WHOLE_TOPIC) -> None:
        self.context = context
        self.share = share
        self.keys = context.keys
        self.holder = holder

    def pop(self, limit: int, ttr: Duration | None) -> Flow[PopReply]:
        return job_verbs.pop.pop_now(
            self.keys, job_verbs.pop.checked_limit(limit), ttr=job_verbs.pop.ttr_of(ttr), holder=self.holder
        )

    def settle(self, verb: SettleVerb[...], items: Sequence[Item]) -> Flow[None]:
        """Settles the jobs whose receipts hold, in steps; then raises the first refusal."""
        outcomes: list[Outcome] = []
        for part in split_items(items, _last_of):
            outcomes += yield verb.call(self.keys, part)
        job_verbs.settle.raise_refusals(outcomes)

    def read_settings(self) -> ScriptCall[list[bytes | None]]:
        """The settings, as they are stored for the whole topic."""
        return job_verbs.settings.read_settings(self.keys, self.share)

    def count_leaving(self) -> Flow[tuple[int, int]]:
        """The numbers of jobs and of schedules that an interrupted move has left between the topics."""
        jobs, schedules = yield from gather(map(ask, job_verbs.views.count_leaving(self.keys)))
        return jobs, schedules

    def wait_queue_key(self, ttr: Duration | None) -> tuple[Any, bytes, bytes]:
        """The key of the wait queue for callers that wait for this topic."""
        return self.keys, job_verbs.pop.ttr_of(ttr), self.holder


class Partitions(Generic[T]):
    """The partitions of a topic. ``known_partitions`` is shared by all topics of a client; ``wanted`` is the number that the
    user declares. The first verb creates them, through any handle: even one without a number."""

    def __init__(
        self,
        single: PartitionVerbs[T],
        make_partition: Callable[[int, int], Any],
        known_partitions: KnownPartitions,
        wanted: int | None,
    ) -> None:
        self.context = single.context
        self._single = single
        self._make_partition = make_partition
        self._known_partitions = known_partitions
        self._wanted = check_count(wanted)
        if wanted is not None:
            known_partitions.declared[self.context.name] = wanted
        self._partitions: list[PartitionVerbs[T]] = []
        self._rotation = count()

    @property
    def keys(self) -> TopicKeys:
        """The keys of a topic that is not divided."""
        return self._single.keys

    @property
    def holder(self) -> bytes:
        """The name under which jobs are popped."""
        return self._single.holder

    @holder.setter
    def holder(self, name: bytes) -> None:
        for verbs in (self._single, *self._partitions):
            verbs.holder = name

    @property
    def single(self) -> PartitionVerbs[T] | None:
        """The verbs of a topic that is known to be one place, else ``None``."""
        counts, name = self._known_partitions.counts, self.context.name
        return self._single if self._wanted in (None, 1) and name in counts and counts[name] == 1 else None

    def partitions(self) -> Flow[list[PartitionVerbs[T]]]:
        """The verbs of each partition. Raises ``BadInput`` if their number is not the declared one."""
        number = self._known_partitions.counts.get(self.context.name)
        if number is None or self._wanted not in (None, number):
            number = yield from self._ask_count()
            self._known_partitions.counts[self.context.name] = number
        if len(self._partitions) != number:
            self._partitions = (
                [self._single] if number == 1 else [self._partition(index, number) for index in range(number)]
            )
        return self._partitions

    def rotated(self) -> Flow[list[PartitionVerbs[T]]]:
        """The same, each time beginning with the next one, so that all are drained equally."""
        parts = yield from self.partitions()
        first = next(self._rotation) % len(parts)
        return [*parts[first:], *parts[:first]]

    def rediscover(self, fault: WrongType) -> Flow[list[PartitionVerbs[T]]]:
        """The partitions that the topic has been given since this client asked. Raises the fault if there are none."""
        number = yield from self._ask_count(called_before=True)
        if number == 1:
            raise fault
        self._known_partitions.counts[self.context.name] = number
        return (yield from self.partitions())

    def _ask_count(self, *, called_before: bool = False) -> Flow[int]:
        keys = self.context.keys
        declared = self._wanted or self._known_partitions.declared.get(self.context.name, 0)
        args = b"%d" % declared, b"%d" % called_before
        found = yield from ask(ScriptCall(FIND_COUNT, (keys.meta, keys.jobs, keys.wake), args, int))
        name, wanted = self.context.name, self._wanted
        if not found and wanted is None:
            return 1
        if not found:
            raise BadInput(
                f"partitions: {name} is a plain topic that has been used. Choose another name, and `tarry migrate` its jobs."
            )
        if wanted is not None and wanted != found:
            raise BadInput(
                f"partitions: {name} has {found}, not {wanted}; the number cannot be changed. "
                "Leave partitions= out, or `tarry migrate` it into a topic that has more."
            )
        return found

    def _partition(self, index: int, number: int) -> PartitionVerbs[T]:
        context: TopicContext[T] = replace(self.context, keys=self._make_partition(index, number))
        return PartitionVerbs(context, self.holder, (index, number))

    # ── dispatch ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def over_partitions(self, make_flow: Callable[[list[PartitionVerbs[T]]], Flow[R]]) -> Flow[R]:
        """Performs a flow on all partitions; again if the topic has been given partitions meanwhile."""
        parts = yield from self.partitions()
        try:
            return (yield from make_flow(parts))
        except WrongType as fault:
            return (yield from make_flow((yield from self.rediscover(fault))))

    def _dispatch(
        self,
        single: Callable[[PartitionVerbs[T]], Operation[R]],
        make_flow: Callable[[list[PartitionVerbs[T]]], Flow[R]],
    ) -> Operation[R]:
        """``single`` if there is one place, as far as this client knows; ``make_flow`` if there are partitions, or turn out to be."""
        only = self.single
        if only is None:
            return self.over_partitions(make_flow)
        operation = single(only)
        if not isinstance(operation, ScriptCall):
            return self._retry_over_partitions(operation, make_flow)
        operation.on_wrong_type = lambda _, fault: self._over_rediscovered(fault, make_flow)
        return operation

    def _retry_over_partitions(self, flow: Flow[R], make_flow: Callable[[list[PartitionVerbs[T]]], Flow[R]]) -> Flow[R]:
        try:
            return (yield from flow)
        except WrongType as fault:
            return (yield from self._over_rediscovered(fault, make_flow))

    def _over_rediscovered(self, fault: WrongType, make_flow: Callable[[list[PartitionVerbs[T]]], Flow[R]]) -> Flow[R]:
        return (yield from make_flow((yield from self.rediscover(fault))))

    def _on_partition_of(self, id: str | bytes, verb: Callable[[PartitionVerbs[T]], Operation[R]]) -> Operation[R]:
        return self._dispatch(verb, lambda parts: flow_of(verb(parts[partition_of_id(id, len(parts))])))

    def _by_partition(
        self, items: Sequence[X], id_of: Callable[[X], Any], verb: Callable[[PartitionVerbs[T], list[int]], Any]
    ) -> Callable[[list[PartitionVerbs[T]]], Flow[Any]]:
        """Makes a flow that performs ``verb`` on the partition of each of some things, and returns the answers in order."""

        def split(parts: list[PartitionVerbs[T]]) -> Flow[Any]:
            answers: list[Any] = [None] * len(items)
            groups = group_by_partition(map(id_of, items), len(parts))
            found = yield from gather(flow_of(verb(parts[index], positions)) for index, positions in groups)
            for (_, positions), part_answers in zip(groups, found, strict=True):
                for at, answer in zip(positions, part_answers or [None] * len(positions), strict=True):
                    answers[at] = answer
            return answers

        return split

    def _by_id(
        self, ids: Sequence[str], verb: Callable[[PartitionVerbs[T], Sequence[str]], Operation[list[R]]]
    ) -> Operation[list[R]]:
        require_several(ids, "ids")
        split = self._by_partition(list(ids), str, lambda verbs, positions: verb(verbs, [ids[at] for at in positions]))
        return self._dispatch(lambda only: verb(only, ids), split)

    def _settle_items(self, verb: SettleVerb[...], items: Sequence[Item]) -> Flow[None]:
        """Settles the jobs whose receipts hold, in all partitions; then raises the first refusal."""
        if self.single is not None:
            return self.single.settle(verb, items)
        return self._settle_by_partition(
            [item[0] for item in items], lambda part, own: part.settle(verb, [items[at] for at in own])
        )

    def _settle_by_partition(
        self, ids: Sequence[str | bytes], verb: Callable[[PartitionVerbs[T], list[int]], Flow[None]]
    ) -> Flow[None]:
        """Performs a verb on the partition of each id; then raises the first refusal."""

        def settle(parts: list[PartitionVerbs[T]]) -> Flow[list[StaleReceipt | None]]:
            return gather(
                job_verbs.merge.collect_refusal(verb(parts[index], own))
                for index, own in group_by_partition(ids, len(parts))
            )

        job_verbs.settle.raise_refusals((yield from self.over_partitions(settle)))

    def _on_each(
        self, verb: Callable[[PartitionVerbs[T]], Operation[R]], merge: Callable[[list[R]], R]
    ) -> Operation[R]:
        return self._dispatch(verb, lambda parts: on_each(parts, verb, merge))


def gather(flows: Iterable[Flow[R]]) -> Flow[list[R]]:
    """Performs the flows of several partitions in step. Few topics have partitions, so no start imports it."""
    from tarry.core import flows as combined

    return combined.gather(flows)


def on_each(
    parts: Sequence[PartitionVerbs[T]],
    verb: Callable[[PartitionVerbs[T]], Operation[R] | Command[R]],
    merge: Callable[[list[R]], R],
) -> Flow[R]:
    """Performs ``verb`` on all partitions in one batch, and merges the answers."""
    if len(parts) == 1:
        return (yield from flow_of(verb(parts[0])))
    return merge((yield from gather([flow_of(verb(verbs)) for verbs in parts])))


def check_count(number: int | None) -> int | None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST_PARTITIONS):
        return number
    raise BadInput(f"partitions: {number!r}; it is a whole number from 1 to {MOST_PARTITIONS}.")


def partition_of_id(id: str | bytes, number: int) -> int:
    """The partition of a job. An occurrence of a schedule is in the schedule's."""
    raw = id.encode() if isinstance(id, str) else id
    if raw[-1:] == b"Z" and (found := _OCCURRENCE.fullmatch(raw)):
        raw = found[1]
    return partition_of_name(raw, number)


def group_by_partition(ids: Iterable[str | bytes], number: int) -> list[tuple[int, list[int]]]:
    """Groups ids by partition: each partition's index, with the positions of its ids."""
    found: dict[int, list[int]] = {}
    for at, id in enumerate(ids):
        found.setdefault(partition_of_id(id, number), []).append(at)
    return sorted(found.items())
