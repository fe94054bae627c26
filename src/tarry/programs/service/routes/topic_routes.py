"""Routes of topics: stats, lists, settings, and administration."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET
from msgspec.structs import asdict

from tarry import CheckReport, DeadGroups, Histogram, JobPage, KeyStats, MinuteCounts, Stats, TopicSettings
from tarry.errors import BadInput, UnknownTopic
from tarry.internal import perform, perform_view, server_verbs
from tarry.programs.serving.problems import UnknownCursor
from tarry.programs.serving.router import RouteTable
from tarry.types import WorkerInfo
from tarry.wire import topic_answers, topic_models
from tarry.wire.endpoints import topic_endpoints as endpoints

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest
    from tarry.wire.bodies import Body

T = TypeVar("T")
table = RouteTable("topics")
EMPTY_HEADER = b"tarry-unknown-topic"
"""A client of the library sends it: to it an unknown topic is an empty one, as it is to a client of the server itself."""


@table.handles(endpoints.NAMES)
async def names(request: ServiceRequest) -> list[str]:
    """The names of topics that have been added to. A hint: purged topics stay in the list."""
    return await request.client.topics()


@table.handles(endpoints.WORKERS)
async def workers(request: ServiceRequest) -> list[WorkerInfo]:
    """The worker processes that have reported in the last half minute: what they work on, how busy they are."""
    return await request.client.workers()


@table.handles(endpoints.WORKER_MODE)
async def set_worker_mode(request: ServiceRequest) -> bool:
    """Asks a worker to be quiet, to stop, or to work again. It learns of it with its next report, within ten seconds."""
    return await request.client.set_worker_mode(request.path["worker"], request.payload.mode)


@table.handles(endpoints.STATS)
async def stats(request: ServiceRequest) -> Stats:
    """Counts by state, next due, oldest ready, totals and lateness."""
    return await _view_of_known(request, request.topic.stats())


@table.handles(endpoints.BUSIEST_KEYS)
async def busiest_keys(request: ServiceRequest) -> tuple[KeyStats, ...]:
    """The keys with the most jobs, delayed, ready and reserved. At most 1,000 keys are looked at."""
    return await _view_of_known(request, request.topic.busiest_keys(request.query_model.limit))


@table.handles(endpoints.KEY_STATS)
async def key_stats(request: ServiceRequest) -> KeyStats:
    """The jobs of one key, why they wait, and when the next one can go."""
    return await _view_of_known(request, request.topic.stats(key=request.path["key"]))


async def _view_of_known(request: ServiceRequest, view: Coroutine[Any, Any, T]) -> T:
    """A view of a topic, asked together with whether the topic is known: both are in one pipeline."""
    found: T
    found, _ = await asyncio.gather(view, _refuse_unknown(request))
    return found


async def _refuse_unknown(request: ServiceRequest) -> None:
    """Raises ``UnknownTopic`` where the topic's own keys prove that nothing was ever there or configured."""
    if EMPTY_HEADER not in request.headers:
        verbs = server_verbs(request.topic)
        known, client = verbs.is_known(), request.client
        if not (await perform_view(client, known) or await perform(client, known)):  # a replica may not have it yet
            raise UnknownTopic(topic=verbs.context.name)


@table.handles(endpoints.HISTOGRAM)
async def histogram(request: ServiceRequest) -> Histogram:
    """How many jobs are due in each interval of time."""
    query = request.query_model
    view = request.topic.histogram(start=start_of(query.start), span=query.span, buckets=query.buckets, past=query.past)
    return await _view_of_known(request, view)


@table.handles(endpoints.THROUGHPUT)
async def throughput(request: ServiceRequest) -> tuple[MinuteCounts, ...]:
    """How many jobs were added, finished and died in each minute of the last day, and how many attempts failed."""
    return await _view_of_known(request, request.topic.throughput(span=request.query_model.span))


def start_of(text: str) -> str | datetime:
    """A duration or a moment; the library refuses anything else."""
    try:
        return datetime.fromisoformat(text) if "-" in text else text
    except ValueError:
        return text


@table.handles(endpoints.LIST_JOBS)
async def list_jobs(request: ServiceRequest) -> JobPage[Body]:
    """One page of jobs, by due time (reserved: by the end of their time to run; dead: by their death).

    Give the page's `cursor` for the next one. `due_before` itself is not in it. With `task`, `error`, `text` or `group` it is
    those that match of the next thousand jobs: it may be empty, and not be the last one.
    """
    return await _page_of_known(request, request.topic.list(**asdict(request.query_model)))


@table.handles(endpoints.DEAD_GROUPS)
async def dead_groups(request: ServiceRequest) -> DeadGroups:
    """Groups dead jobs by what went wrong: task, error without numbers, ids, quoted text and addresses, place in the code.

    One request reads the next `limit` dead jobs. Give the answer's `cursor` for the next ones, and add up the counts of each
    group; `list` with a `group` has its jobs.
    """
    return await _page_of_known(request, request.topic.dead_groups(**asdict(request.query_model)))


async def _page_of_known(request: ServiceRequest, view: Coroutine[Any, Any, T]) -> T:
    """A page of a topic that is known. Raises ``UnknownCursor``."""
    try:
        return await _view_of_known(request, view)
    except BadInput as fault:
        if str(fault).startswith("cursor:") and re.fullmatch(topic_models.CURSOR, request.query_model.cursor or ""):
            raise UnknownCursor from None
        raise


@table.handles(endpoints.CHECK)
async def check(request: ServiceRequest) -> CheckReport:
    """Checks the whole topic: whether every job is in exactly one state, and which jobs are being moved to another topic."""
    return await request.topic.check()


@table.handles(endpoints.PAUSE)
async def pause(request: ServiceRequest) -> datetime | None:
    """Hands out nothing for a time, or until `resume`; with `key` nothing of this key."""
    return await request.topic.pause(request.payload.duration, key=request.payload.key)


@table.handles(endpoints.RESUME)
async def resume(request: ServiceRequest) -> None:
    """Ends a pause; with `key` that of this key."""
    await request.topic.resume(key=request.query_model.key)


@table.handles(endpoints.PURGE)
async def purge(request: ServiceRequest) -> int:
    """Deletes all jobs, or all in one state. Answers how many. Receipts go on rising.

    With `key` those of this key that are delayed, ready or reserved; its dead and finished jobs stay.
    """
    await _refuse_unknown(request)
    return await request.topic.purge(request.payload.state, key=request.payload.key)


@table.handles(endpoints.SETTINGS)
async def settings(request: ServiceRequest) -> TopicSettings:
    """The topic's settings: for jobs that are added without these options, and for all of its jobs together."""
    return await request.topic.configure()


@table.handles(endpoints.CONFIGURE)
async def configure(request: ServiceRequest) -> TopicSettings:
    """Changes the topic's settings, and answers all of them. Fields that are not given stay."""
    payload = request.payload
    named = {name: value for name in payload.__struct_fields__ if (value := getattr(payload, name)) is not UNSET}
    return await request.topic.configure(**named)


@table.handles(endpoints.PARTITIONS)
async def partitions(request: ServiceRequest) -> int:
    """How many partitions the topic has; 1 for a plain topic."""
    return len(await request.perform(server_verbs(request.topic).partitions()))


@table.handles(endpoints.PUT_PARTITIONS)
async def put_partitions(request: ServiceRequest) -> int:
    """Creates the topic with this number of partitions, each in a slot of its own. Repeating it changes nothing.

    Refused if the topic has another number, or is a plain topic that has been used: the number cannot be changed.
    """
    topic = request.app.clients.partitioned(request.namespace, request.path["topic"], request.payload.number)
    return len(await perform(topic, server_verbs(topic).partitions()))


@table.handles(endpoints.MIGRATE)
async def migrate(request: ServiceRequest) -> topic_answers.MigratedShown:
    """Moves waiting and dead jobs, schedules and settings into another topic of the namespace.

    About `limit` jobs in one request: repeat until it is `done`.
    Safe to interrupt and to repeat, under load. Reserved jobs stay until they are settled.
    """
    payload, to = request.payload, request.topic_named(request.payload.to)
    found = await request.client.migrate(
        request.topic, to, dry_run=payload.dry_run, redirect=payload.redirect, limit=payload.limit
    )
    done = payload.dry_run or found.refused > 0 or found.moved < payload.limit
    return topic_answers.MigratedShown(
        moved=found.moved,
        refused=found.refused,
        reserved=found.reserved,
        schedules=found.schedules,
        schedules_refused=found.schedules_refused,
        settings=list(found.settings),
        done=done,
    )
