"""Schedules as a user sees them: flows over the verbs of schedules and of jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from msgspec import Struct

from tarry.clients.handle_verbs import server_verbs
from tarry.core.flows import gather
from tarry.core.requests import Flow, ask
from tarry.errors import BadInput
from tarry.values.durations import Duration, as_datetime, as_timedelta, moment_us
from tarry.values.keys import TopicKeys
from tarry.verbs import namespaces
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import contents, records
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.partition import TopicContext
from tarry.verbs.jobs.partitions import PartitionVerbs, on_each, partition_of_name
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.schedules import definitions, recurrences
from tarry.verbs.schedules.definitions import ScheduleDefinition
from tarry.verbs.schedules.records import Missed, StoredSchedule, id_of, missed_of, new_id_of
from tarry.verbs.schedules.recurrences import Recurrence

R = TypeVar("R")
_UNSENT = b"\1" + bytes(8)
"""Format and date, which the script writes before what was sent."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is now.

    ``next`` is its next occurrence, ``None`` while it is paused. ``fired`` counts its jobs, ``skipped`` the occurrences that
    were missed and not made up for. ``from_code``: a worker's code declares it; ``orphaned``: no running worker's code does any more.
    ``version`` marks the definition that code declared last, ``declared`` says when; both are ``None`` for one put by hand.
    ``damaged``: what is stored cannot be read, or only by a newer tarry; put it again, or delete it.
    """

    topic: str
    id: str
    every: timedelta | None
    cron: str | None
    tz: str | None
    missed: Missed
    next: datetime | None
    paused: bool
    fired: int
    skipped: int
    from_code: bool
    orphaned: bool
    version: str | None
    declared: datetime | None = field(compare=False)
    changed: datetime
    damaged: bool
    last: datetime | None
    """The last occurrence that was handled since it was changed: it got a job, was missed, or fell into a pause."""
    _codec: BodyCodec[Any] = field(repr=False, compare=False)
    _recurrence: Recurrence = field(repr=False)
    _record: contents.Record = field(repr=False)
    """The record of its jobs."""

    def following(self, count: int, after: datetime) -> list[datetime]:
        """The occurrences after a moment, from the next one on; none while it is paused. Raises ``BadInput`` where this machine
        does not know the time zone."""
        if self.next is None or self.damaged:
            return []
        found = recurrences.next_occurrences(self._recurrence, moment_us(self.next), moment_us(after), count)
        return [as_datetime(at) for at in found]

    @property
    def body(self) -> Any:
        """The body of its jobs, decoded now. Raises ``BodyError``."""
        return self._codec.decode(*self.encoded)

    @property
    def encoded(self) -> tuple[bytes, int]:
        """The body of its jobs as it is stored, and the flag that says what it is."""
        return records.body_of(self._record)

    @property
    def raw(self) -> bytes:
        """The body of its jobs as it is stored."""
        return self.encoded[0]

    @property
    def head(self) -> contents.JobContents:
        """The options of its jobs."""
        return records.unpack_head(self._record)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of its jobs."""
        return records.unpack_headers(self.head.headers)


class Timing(Struct, frozen=True):
    """When a schedule adds jobs, as it was given."""

    every: Duration | None = None
    cron: str | None = None
    tz: str = "UTC"
    first: datetime | None = None
    missed: Missed = "once"


def schedule_definition(
    context: TopicContext[Any], id: str, body: Any, timing: Timing, options: JobOptions
) -> ScheduleDefinition:
    """A schedule, checked. Raises ``BadInput``."""
    encoded = options.encode()
    new_id_of(id)
    recurrence, first = check_timing(timing)
    raw, flags = context.codec.encode(body)
    return ScheduleDefinition(id, recurrence, timing.missed, encoded.head(flags, contents.NO_NONCE) + raw, first)


def check_timing(timing: Timing) -> tuple[Recurrence, int | None]:
    """The recurrence of a schedule, and its first moment in µs. Raises ``BadInput``."""
    recurrence = recurrences.make_recurrence(timing.every, timing.cron, timing.tz)
    if timing.first is not None and timing.cron is not None:
        raise BadInput("first: for every=; a cron expression says itself when it begins.")
    missed_of(timing.missed)
    return recurrence, None if timing.first is None else moment_us(timing.first, "first")


def make_schedule(topic: str, codec: BodyCodec[Any], one: StoredSchedule) -> Schedule:
    plan, recurrence, last = one.record, one.record.recurrence, one.record.last
    return Schedule(
        topic=topic,
        id=plan.id,
        every=as_timedelta(recurrence.every_us) if recurrence.every_us else None,
        cron=recurrence.cron or None,
        tz=recurrence.tz if recurrence.cron else None,
        missed=plan.options.missed,
        next=None if one.next is None else as_datetime(one.next),
        paused=plan.paused,
        fired=plan.fired,
        skipped=plan.skipped,
        from_code=one.from_code,
        orphaned=one.orphaned,
        version=one.version,
        declared=None if one.declared is None else as_datetime(one.declared),
        changed=as_datetime(plan.changed),
        damaged=plan.damaged,
        last=None if last is None else as_datetime(last),
        _codec=codec,
        _recurrence=recurrence,
        _record=_UNSENT + plan.value,
    )


def declare_schedules(
    verbs: TopicVerbs[Any], schedules: Sequence[ScheduleDefinition]
) -> Flow[definitions.DeclareReply]:
    """Says what the code of a worker has in a topic: to each partition what lies there, for it also learns so what is gone."""

    def declare_part(parts: Sequence[PartitionVerbs[Any]]) -> Flow[definitions.DeclareReply]:
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

    def __init__(self, namespace: str, topic_verbs: Callable[[str], TopicVerbs[Any]]) -> None:
        self._namespace = namespace
        self._topic_verbs = topic_verbs

    def verbs(self, topic: Any) -> TopicVerbs[Any]:
        """A topic's verbs: of the topic itself, or by its name."""
        return server_verbs(topic) if hasattr(topic, "verbs") else self._topic_verbs(topic)

    def context(self, topic: Any) -> TopicContext[Any]:
        return self.verbs(topic).context

    def put(self, topic: Any, id: str, body: Any, timing: Timing, options: JobOptions) -> Flow[Schedule]:
        verbs = self.verbs(topic)
        return self._put(verbs, schedule_definition(verbs.context, id, body, timing, options))

    def _put(self, verbs: TopicVerbs[Any], one: ScheduleDefinition) -> Flow[Schedule]:
        found = yield from on_partition(verbs, one.id, lambda keys: definitions.put_schedule(keys, one))
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
