"""Moves a shared queue into a topic, and a topic into another one: flows over the verbs of both."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from tarry.core.requests import Flow, Request, ask
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND
from tarry.verbs.jobs.records import pack_job
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.jobs.topic_migration import (
    NOT_LATE,
    Destination,
    LateDeparture,
    Migrated,
    Row,
    arrive_each,
    destination_of,
)
from tarry.verbs.redisson.delayed import queue_migration as migration
from tarry.verbs.redisson.delayed import transfer
from tarry.verbs.redisson.delayed.queue_context import QueueContext

T = TypeVar("T")
LAST_MOMENT = 253402300799999999
"""The end of the year 9999, in µs."""


def migrate_queue(
    context: QueueContext[Any],
    topic: TopicVerbs[Any],
    progress: Callable[[int], object] | None = None,
    limit: int | None = None,
    *,
    redirect: bool = False,
) -> Flow[Migrated]:
    """Moves all elements that are not due yet, or about ``limit``. After an interruption the next call continues.
    Raises ``BadInput`` if elements are being moved to another topic; with ``redirect`` they go to this one."""
    context.require_codec()
    parts = yield from topic.partitions()
    destination: Destination = yield from at_one_server(destination_of(parts))
    moved = poison = 0
    late = NOT_LATE
    while limit is None or moved + poison < limit:
        departure, now, claimed = yield from ask(
            migration.claim(context, destination.departure_name(topic.context.ids.new()), late)
        )
        if not claimed:
            break
        if not redirect:
            destination.refuse("migrate_queue", departure)
        elif destination.departure_name(b"") not in departure:
            late = LateDeparture(departure)
            continue
        fit, unfit = _decode_claimed(claimed, topic, now)
        if unfit:
            yield from ask(transfer.add_poison(context.keys, [(one.payload, reason) for one, reason in unfit]))
        arrived = yield from at_one_server(arrive_each(parts, departure, fit))
        if isinstance(arrived, LateDeparture):
            late = arrived
            continue
        yield from ask(migration.remove_arrived(context, claimed))
        moved += len(fit)
        poison += len(unfit)
        if progress is not None:
            progress(moved)
    return Migrated(moved, poison=poison)


def count_queue(context: QueueContext[Any], topic: TopicVerbs[Any]) -> Flow[Migrated]:
    """Counts the elements that ``migrate_queue`` would move now; changes nothing."""
    context.require_codec()
    moved = poison = 0
    for claimed in (True, False):
        at, size = 0, 1
        while size:
            page, size = yield from ask(migration.preview(context, at, claimed=claimed))
            fit, unfit = _decode_claimed(page, topic, 0)
            moved += len(fit)
            poison += len(unfit) + size - len(page)
            at += size
    return Migrated(moved, poison=poison)


def _decode_claimed(
    claimed: list[migration.LeavingElement], topic: TopicVerbs[Any], now: int
) -> tuple[list[Row], list[tuple[migration.LeavingElement, str]]]:
    """Makes jobs with the topic's defaults. Returns also the elements that cannot be jobs, with the reason."""
    fit: list[Row] = []
    unfit: list[tuple[migration.LeavingElement, str]] = []
    for one in claimed:
        try:
            raw, flags = topic.context.codec.encode(one.body)
            due = max(one.due_ms, 0) * MILLISECOND
            if due > LAST_MOMENT:
                raise BadInput("due: the moment is beyond the year 9999.")
        except BadInput as fault:
            unfit.append((one, str(fault)))
        else:
            fit.append((one.id.encode(), b"due %d" % due, pack_job(now, flags, raw), None, None))
    return fit, unfit


def at_one_server(flow: Generator[tuple[int, Request], Any, T]) -> Flow[T]:
    """Runs a move whose two topics are on the same server."""
    answer: Any = None
    while True:
        try:
            _, request = flow.send(answer)
        except StopIteration as end:
            done: T = end.value
            return done
        answer = yield request
