"""From a shared queue into a topic: a flow over the verbs of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tarry.errors import BadInput
from tarry.idea.calls import Flow, ask
from tarry.verbs.delayed import leaving, moving
from tarry.verbs.delayed.desk import QueueDesk
from tarry.verbs.jobs.face import TOPICS_OWN
from tarry.verbs.jobs.routing import RoutedVerbs
from tarry.verbs.jobs.shapes import NewJob
from tarry.words.durations import MILLISECOND, as_datetime


@dataclass(frozen=True, slots=True)
class MovedOver:
    """What ``move_to_topic`` did, or would do."""

    moved: int
    aside: int
    """How many could not become a body of the topic and were set aside in the queue's poison."""


def move_to_topic(
    desk: QueueDesk[Any], topic: RoutedVerbs[Any], progress: Callable[[int], object] | None = None
) -> Flow[MovedOver]:
    """Everything that is not due yet. Broken off anywhere, it goes on where it was."""
    moved = aside = 0
    while claimed := (yield from ask(leaving.claim(desk))):
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
