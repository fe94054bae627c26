"""Schedules as a user sees them: flows over the verbs of schedules and of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tarry.clients.origin import Origin
from tarry.errors import BadInput
from tarry.idea.calls import Flow, ask
from tarry.verbs import registry
from tarry.verbs.codecs import Bodies
from tarry.verbs.jobs import options, stored
from tarry.verbs.jobs.routing import RoutedVerbs
from tarry.verbs.jobs.topic import TopicDesk
from tarry.verbs.schedules import keeping, rhythms
from tarry.verbs.schedules.keeping import Said
from tarry.verbs.schedules.plans import Kept, Missed, Plan, id_of, missed_of
from tarry.words.durations import Duration, as_datetime, as_timedelta, moment

_UNSENT = b"\1" + bytes(8)
"""Format and date, which the script writes before what was sent."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is now.

    ``next`` is its next occurrence, ``None`` while it is paused. ``fired`` counts its jobs, ``skipped`` the occurrences that
    were missed and not made up for. ``from_code``: a worker's code declares it; ``orphaned``: no living worker's does any more.
    ``version`` marks the definition that code declared last, ``declared`` says when; both are ``None`` for one put by hand.
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
    _bodies: Bodies[Any] = field(repr=False, compare=False)
    _plan: Plan = field(repr=False)

    @property
    def last(self) -> datetime | None:
        """The last occurrence that was attended to since it was changed: it got a job, was missed, or fell into a pause."""
        found = self._plan.last
        return None if found is None else as_datetime(found)

    def following(self, count: int, after: datetime) -> list[datetime]:
        """The occurrences after a moment, from the next one on; none while it is paused. Raises ``BadInput`` where this machine
        does not know the time zone."""
        if self.next is None:
            return []
        found = rhythms.several(self._plan.rhythm, moment(self.next), moment(after), count)
        return [as_datetime(at) for at in found]

    @property
    def body(self) -> Any:
        """The body of its jobs, decoded now. Raises ``BodyError``."""
        return self._bodies.decode(*stored.body_of(_UNSENT + self._plan.value))

    @property
    def raw(self) -> bytes:
        """The body of its jobs as it is stored."""
        return stored.body_of(_UNSENT + self._plan.value)[0]

    @property
    def head(self) -> stored.Head:
        """What its jobs say of themselves beside their body."""
        return stored.unpack_head(_UNSENT + self._plan.value)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of its jobs."""
        return stored.unpack_headers(self.head.headers)


def said(
    desk: TopicDesk[Any],
    id: str,
    body: Any,
    every: Duration | None,
    cron: str | None,
    tz: str,
    first: datetime | None,
    missed: Missed,
    opts: options.Options,
) -> Said:
    """A schedule, checked. Raises ``BadInput``."""
    id_of(id)
    rhythm = rhythms.rhythm(every, cron, tz)
    if first is not None and cron is not None:
        raise BadInput("first: for every=; a cron expression says itself when it begins.")
    raw, flags = desk.bodies.encode(body)
    value = opts.head(flags, stored.NO_NONCE) + raw
    return Said(id, rhythm, missed_of(missed), value, None if first is None else moment(first, "first"))


def shown(desk: TopicDesk[Any], one: Kept) -> Schedule:
    plan, rhythm = one.plan, one.plan.rhythm
    return Schedule(
        topic=desk.name,
        id=plan.id,
        every=as_timedelta(rhythm.every_us) if rhythm.every_us else None,
        cron=rhythm.cron or None,
        tz=None if rhythm.every_us else rhythm.tz,
        missed=plan.about.missed,
        next=None if one.next is None else as_datetime(one.next),
        paused=plan.paused,
        fired=plan.fired,
        skipped=plan.skipped,
        from_code=one.from_code,
        orphaned=one.orphaned,
        version=one.version,
        declared=None if one.declared is None else as_datetime(one.declared),
        changed=as_datetime(plan.changed),
        _bodies=desk.bodies,
        _plan=plan,
    )


def in_one_place(verbs: RoutedVerbs[Any]) -> Flow[None]:
    """A schedule and its jobs lie in one place. Raises ``BadInput`` where a topic has partitions."""
    parts = yield from verbs.parts()
    if len(parts) > 1:
        name = verbs.desk.name
        raise BadInput(
            f"schedule: {name} has partitions; put it into a topic of one place, whose handler adds to {name}."
        )


def declare(verbs: RoutedVerbs[Any], schedules: Sequence[Said]) -> Flow[keeping.Declared]:
    """Says what the code of a worker has in a topic."""
    if schedules:
        yield from in_one_place(verbs)
    return (yield from keeping.declare(verbs.desk.keys, schedules))


class ScheduleVerbs:
    """The verbs of a client's schedules: each answers what to do."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    def verbs(self, topic: Any) -> RoutedVerbs[Any]:
        """A topic's verbs: of the topic itself, or by its name."""
        found: RoutedVerbs[Any] = topic.verbs if hasattr(topic, "verbs") else self.origin.verbs(topic, None)
        return found

    def desk(self, topic: Any) -> TopicDesk[Any]:
        return self.verbs(topic).desk

    def put(
        self,
        topic: Any,
        id: str,
        body: Any,
        every: Duration | None,
        cron: str | None,
        tz: str,
        first: datetime | None,
        missed: Missed,
        ttr: Duration | None,
        max_attempts: int | None,
        headers: Mapping[str, str] | None,
        max_lateness: Duration | None,
    ) -> Flow[Schedule]:
        verbs = self.verbs(topic)
        opts = options.options(0, None, "error", ttr, max_attempts, headers, max_lateness)
        return self._put(verbs, said(verbs.desk, id, body, every, cron, tz, first, missed, opts))

    def _put(self, verbs: RoutedVerbs[Any], one: Said) -> Flow[Schedule]:
        yield from in_one_place(verbs)
        found = yield from keeping.put(verbs.desk.keys, one)
        return shown(verbs.desk, found)

    def get(self, topic: Any, id: str) -> Flow[Schedule | None]:
        desk = self.desk(topic)
        found = yield from keeping.get(desk.keys, id)
        return None if found is None else shown(desk, found)

    def list(self, topic: Any) -> Flow[list[Schedule]]:
        topics: list[Any] = [topic]
        if topic is None:
            topics = yield from ask(registry.known(self.origin.namespace))
        found: list[Schedule] = []
        for one in topics:
            desk = self.desk(one)
            kept = yield from keeping.everything(desk.keys)
            found += [shown(desk, schedule) for schedule in kept]
        return found

    def switch(self, topic: Any, id: str, what: Any) -> Flow[bool]:
        return keeping.switch(self.desk(topic).keys, id, what)
