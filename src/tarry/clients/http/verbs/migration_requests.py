"""Moving much within a service, as a flow of requests: each moves some and says whether there is more.

After an interruption the next call continues: the service moves in steps that are safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarry.clients.http.requests import HTTPFlow, ask
from tarry.clients.http.verbs.topic_requests import HTTPTopicVerbs
from tarry.clients.http.verbs.unsupported import not_supported
from tarry.clients.redisson.http_queues import HTTPDelayedQueueVerbs
from tarry.errors import BadInput
from tarry.verbs.jobs.topic_migration import Migrated, refuse_same_topic
from tarry.verbs.redisson.codecs import CODECS
from tarry.wire import topic_answers, topic_models
from tarry.wire.endpoints import topic_endpoints as topics
from tarry.wire.redisson import queue_endpoints as queues
from tarry.wire.redisson import queue_models

STEP, STEP_S = 2000, 50.0
"""The number moved by one request, and the seconds that it may take."""
Progress = Callable[[int], object] | None


def migrate_queue(
    address: Any, queue: Any, topic: Any, *, dry_run: bool, redirect: bool, limit: int | None, progress: Progress
) -> HTTPFlow[Migrated]:
    """Moves the elements that are not due yet out of a queue into a topic. Both must be at ``place``."""
    of_queue, of_topic = _same_service(address, queue, "migrate_queue"), _same_service(address, topic, "migrate_queue")
    if of_topic.context.codec.is_custom:
        raise BadInput(
            "migrate_queue: a service writes JSON and bytes; give the topic by its name, without your codec."
        )
    return _move(
        of_queue, of_topic, _codec(of_queue), dry_run=dry_run, redirect=redirect, limit=limit, progress=progress
    )


def _move(
    queue: HTTPDelayedQueueVerbs[Any],
    topic: HTTPTopicVerbs[Any],
    codec: Any,
    *,
    dry_run: bool,
    redirect: bool,
    limit: int | None,
    progress: Progress,
) -> HTTPFlow[Migrated]:
    if topic.first is not None:
        yield from ask(topic.first)
    moved = poison = 0
    while True:
        some = _step(limit, moved + poison)
        body = queue_models.MigrateQueue(
            to=topic.context.name, codec=codec, dry_run=dry_run, redirect=redirect, limit=some
        )
        found: topic_answers.MigratedShown = yield from ask(queue.request(queues.MIGRATE, body=body, wait=STEP_S))
        moved, poison = moved + found.moved, poison + found.poison
        if progress is not None and found.moved and not dry_run:
            progress(moved)
        if found.done or not _step(limit, moved + poison):
            return Migrated(moved, poison=poison)


def _step(limit: int | None, moved: int) -> int:
    """How many the next request moves; 0 if these were all."""
    return STEP if limit is None else min(STEP, max(limit - moved, 0))


def _codec(queue: HTTPDelayedQueueVerbs[Any]) -> str:
    """The name of a queue's codec: the service reads the elements."""
    queue.context.require_codec()
    for name, codec in CODECS.items():
        if codec is queue.context.codec:
            return name
    raise BadInput("migrate_queue: a service reads elements by a codec that has a name, and this one is your own.")


def migrate(
    address: Any, topic: Any, to: Any, *, dry_run: bool, redirect: bool, limit: int | None, progress: Progress
) -> HTTPFlow[Migrated]:
    """Moves the waiting and the dead jobs into another topic. Both must be at ``place``."""
    here, there = _same_service(address, topic, "migrate"), _same_service(address, to, "migrate")
    refuse_same_topic(True, here.context, there.context)
    return _migrate(here, there, dry_run=dry_run, redirect=redirect, limit=limit, progress=progress)


def _migrate(
    source: HTTPTopicVerbs[Any],
    target: HTTPTopicVerbs[Any],
    *,
    dry_run: bool,
    redirect: bool,
    limit: int | None,
    progress: Progress,
) -> HTTPFlow[Migrated]:
    if target.first is not None:
        yield from ask(target.first)
    moved = schedules = 0
    options: dict[str, None] = {}
    while True:
        body = topic_models.Migrate(
            to=target.context.name, dry_run=dry_run, redirect=redirect, limit=_step(limit, moved)
        )
        found: topic_answers.MigratedShown = yield from ask(source.request(topics.MIGRATE, body=body, wait=STEP_S))
        moved, schedules = moved + found.moved, schedules + found.schedules
        options.update(dict.fromkeys(found.settings))
        if progress is not None and found.moved and not dry_run:
            progress(moved)
        if found.done or not _step(limit, moved):
            stay = found.schedules_refused
            return Migrated(moved, found.refused, found.reserved, schedules, stay, tuple(options))


def _same_service(address: Any, handle: Any, what: str) -> Any:
    """Returns the verbs of a handle in the same namespace of the same service."""
    if getattr(handle.engine.config, "service", None) != address:
        raise not_supported(what)
    return handle.verbs
