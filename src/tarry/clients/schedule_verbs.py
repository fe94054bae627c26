"""The verbs of schedules: flows over the verbs of schedules and of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tarry.core.flows import gather
from tarry.core.requests import Flow, ask
from tarry.values.keys import TopicKeys, partition_of_name
from tarry.verbs import namespaces
from tarry.verbs.jobs import job_fields as contents
from tarry.verbs.jobs.add import refuse_in_partitions
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.partitions import PartitionVerbs, on_each
from tarry.verbs.jobs.records import has_key
from tarry.verbs.jobs.schedule_info import Schedule, Timing, check_timing, make_schedule
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.jobs.topic_context import TopicContext
from tarry.verbs.schedules import definitions
from tarry.verbs.schedules.definitions import ScheduleDefinition
from tarry.verbs.schedules.records import StoredSchedule, id_of

R = TypeVar("R")


def schedule_definition(
    context: TopicContext[Any], id: str, body: Any, timing: Timing, options: JobOptions
) -> ScheduleDefinition:
    """A schedule, checked. Raises ``BadInput``."""
    encoded = options.encode()
    id_of(id)
    recurrence, first = check_timing(timing)
    raw, flags = context.codec.encode(body)
    return ScheduleDefinition(id, recurrence, timing.missed, encoded.head(flags, contents.NO_NONCE) + raw, first)


def declare_schedules(
    verbs: TopicVerbs[Any], schedules: Sequence[ScheduleDefinition]
) -> Flow[definitions.DeclareReply]:
    """Says what the code of a worker has in a topic: to each partition what lies there, for it also learns so what is gone."""

    def declare_part(parts: Sequence[PartitionVerbs[Any]]) -> Flow[definitions.DeclareReply]:
        for one in schedules:
            _refuse_key(verbs, one, parts)
        mine: list[list[ScheduleDefinition]] = [[] for _ in parts]
        for one in schedules:
            mine[partition_of_name(id_of(one.id), len(parts))].append(one)
        found = yield from gather(
            definitions.declare_schedules(part.keys, its) for part, its in zip(parts, mine, strict=True)
        )
        return definitions.DeclareReply(
            tuple(id for one in found for id in one.older),
            tuple(id for one in found for id in one.conflicting),
            any(one.any_from_code for one in found),
        )

    return verbs.over_partitions(declare_part)


def _refuse_key(verbs: TopicVerbs[Any], one: ScheduleDefinition, parts: Sequence[PartitionVerbs[Any]]) -> None:
    """Raises ``BadInput``: the jobs of the schedule would have a key, and the topic has partitions."""
    if len(parts) > 1 and has_key(one.value):
        refuse_in_partitions("key", verbs.context.name, len(parts))


def on_partition(verbs: TopicVerbs[Any], id: str, do: Callable[[TopicKeys], Flow[R]]) -> Flow[R]:
    """Performs an operation on a schedule, in the partition of its name."""
    raw = id_of(id)
    return verbs.over_partitions(lambda parts: do(parts[partition_of_name(raw, len(parts))].keys))


def count_schedules(verbs: TopicVerbs[Any]) -> Flow[int]:
    """The number of a topic's schedules."""
    return verbs.over_partitions(lambda parts: on_each(parts, lambda part: definitions.count_schedules(part.keys), sum))


def list_schedules(verbs: TopicVerbs[Any]) -> Flow[list[Schedule]]:
    """The schedules of a topic."""
    kept = yield from verbs.over_partitions(lambda parts: definitions.list_all([part.keys for part in parts]))
    return [make_schedule(verbs.context.name, verbs.context.codec, one) for one in kept]


class ScheduleVerbs:
    """The verbs of a client's schedules: each returns an operation."""

    def __init__(self, namespace: str, verbs: Callable[[Any], TopicVerbs[Any]]) -> None:
        self._namespace = namespace
        self.verbs = verbs
        """A topic's verbs: of the topic itself, or by its name."""

    def context(self, topic: Any) -> TopicContext[Any]:
        return self.verbs(topic).context

    def put(self, topic: Any, id: str, body: Any, timing: Timing, options: JobOptions) -> Flow[Schedule]:
        verbs = self.verbs(topic)
        return self._put(verbs, schedule_definition(verbs.context, id, body, timing, options))

    def _put(self, verbs: TopicVerbs[Any], one: ScheduleDefinition) -> Flow[Schedule]:
        def put_part(parts: Sequence[PartitionVerbs[Any]]) -> Flow[StoredSchedule]:
            _refuse_key(verbs, one, parts)
            return definitions.put_schedule(parts[partition_of_name(id_of(one.id), len(parts))].keys, one)

        found = yield from verbs.over_partitions(put_part)
        return make_schedule(verbs.context.name, verbs.context.codec, found)

    def get(self, topic: Any, id: str) -> Flow[Schedule | None]:
        verbs = self.verbs(topic)
        found = yield from on_partition(verbs, id, lambda keys: definitions.get_schedule(keys, id))
        return None if found is None else make_schedule(verbs.context.name, verbs.context.codec, found)

    def list(self, topic: Any) -> Flow[list[Schedule]]:
        topics: list[Any] = [topic]
        if topic is None:
            topics = yield from ask(namespaces.list_topics(self._namespace))
        found = yield from gather(list_schedules(self.verbs(one)) for one in topics)
        return [schedule for some in found for schedule in some]

    def set_state(self, topic: Any, id: str, what: Any) -> Flow[bool]:
        return on_partition(self.verbs(topic), id, lambda keys: definitions.set_state(keys, id, what))
