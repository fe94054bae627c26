"""From a shared queue into a topic, and from one topic into another: flows over the verbs of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tarry.clients.origin import Origin
from tarry.errors import BadInput
from tarry.idea.calls import Flow, ask
from tarry.verbs.delayed import leaving, moving
from tarry.verbs.delayed.desk import QueueDesk
from tarry.verbs.jobs.face import TOPICS_OWN
from tarry.verbs.jobs.leaving import Migrated, migrate, refuse_itself
from tarry.verbs.jobs.routing import RoutedVerbs
from tarry.verbs.jobs.shapes import NewJob
from tarry.words import names
from tarry.words.durations import MILLISECOND, as_datetime


@dataclass(frozen=True, slots=True)
class MovedOver:
    """What ``move_to_topic`` did, or would do."""

    moved: int
    aside: int
    """How many could not become a body of the topic and were set aside in the queue's poison."""


def move_to_topic(
    desk: QueueDesk[Any],
    topic: RoutedVerbs[Any],
    progress: Callable[[int], object] | None = None,
    most: int | None = None,
) -> Flow[MovedOver]:
    """Everything that is not due yet, or ``most`` of it, rounded up to a step. Broken off anywhere, it goes on where it was."""
    moved = aside = 0
    while most is None or moved + aside < most:
        claimed = yield from ask(leaving.claim(desk))
        if not claimed:
            break
        fit, unfit = _sorted(claimed, topic)
        if unfit:
            yield from ask(moving.aside(desk.keys, [(one.payload, reason) for one, reason in unfit]))
        jobs = [NewJob(one.body, at=as_datetime(one.due_ms * MILLISECOND), id=one.id) for one in fit]
        yield from topic.add_many(jobs, 0, None, "keep", None, TOPICS_OWN, None, False)
        yield from ask(leaving.let_go(desk, claimed))
        moved += len(fit)
        aside += len(unfit)
        if progress is not None:
            progress(moved)
    return MovedOver(moved, aside)


def rehearse(desk: QueueDesk[Any], topic: RoutedVerbs[Any]) -> Flow[MovedOver]:
    """What ``move_to_topic`` would do now; changes nothing."""
    names.refuse_dots(topic.desk.name, "topic")
    moved = aside = 0
    for claimed in (True, False):
        at, size = 0, 1
        while size:
            page, size = yield from ask(leaving.look_at(desk, at, claimed=claimed))
            fit, unfit = _sorted(page, topic)
            moved += len(fit)
            aside += len(unfit) + size - len(page)
            at += size
    return MovedOver(moved, aside)


def _sorted(
    claimed: list[leaving.Leaving], topic: RoutedVerbs[Any]
) -> tuple[list[leaving.Leaving], list[tuple[leaving.Leaving, str]]]:
    fit: list[leaving.Leaving] = []
    unfit: list[tuple[leaving.Leaving, str]] = []
    for one in claimed:
        try:
            topic.desk.bodies.encode(one.body)
        except BadInput as fault:
            unfit.append((one, str(fault)))
        else:
            fit.append(one)
    return fit, unfit


def migrate_some(here: RoutedVerbs[Any], there: RoutedVerbs[Any], *, dry_run: bool, most: int) -> Flow[Migrated]:
    """About ``most`` jobs, into another topic of the same server. Raises ``BadInput`` for a topic into itself."""
    refuse_itself(True, here.desk, there.desk)
    return _migrate_some(here, there, dry_run=dry_run, most=most)


def _migrate_some(here: RoutedVerbs[Any], there: RoutedVerbs[Any], *, dry_run: bool, most: int) -> Flow[Migrated]:
    from_parts = yield from here.parts()
    to_parts = yield from there.parts()
    journey = migrate(from_parts, to_parts, dry_run=dry_run, most=most)
    answer: Any = None
    while True:
        try:
            _, request = journey.send(answer)
        except StopIteration as end:
            done: Migrated = end.value
            return done
        answer = yield request


def refuse_services(what: str, *handles: Any) -> None:
    """A client of a server cannot reach what a service has. Raises ``BadInput``."""
    for handle in handles:
        if not isinstance(handle.engine.origin, Origin):
            raise BadInput(
                f"{what}: {handle.name} is of a service; open it with a tarry.Client at its server, or let an HTTPClient do it all."
            )
