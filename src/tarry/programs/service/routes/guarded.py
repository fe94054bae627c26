"""Routes of guarded queues (article 002's): values are pushed with a delay, and polled when they are due.

Polled items are out of the queue. A client that disconnects while it waits loses nothing, but items are lost with a response
that does not arrive. Topics keep jobs until they are finished.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.clients.http.wire import bodies, guarded_answers, guarded_models, queue_answers
from tarry.programs.service import idempotency, replays
from tarry.programs.service.problems import Forbidden
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Example, RouteTable, count_items
from tarry.programs.service.shared_queues import wait_seconds
from tarry.values.durations import as_datetime
from tarry.verbs.guarded import guarded_scripts
from tarry.verbs.guarded.context import GuardedStats, Item

if TYPE_CHECKING:
    from tarry.clients.awaited.guarded_queue import AsyncGuardedQueue
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("guarded")
QUEUE = "/v1/guarded/{queue}"
_PATH = {"queue": "reminders"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"to": "ann"}')


def queue_of(request: ServiceRequest, layout: str, max_lateness: Any = None) -> AsyncGuardedQueue[bodies.Body]:
    """The queue of the path; its values pass through undecoded. Raises ``BadInput``."""
    if layout == "article" and request.namespace != request.app.settings.namespaces[0]:
        raise Forbidden("The article's layout has no namespace; use the service's first one, and a token of it.")
    passing = bodies.PassThroughCodec(request.app.settings.max_body)
    return request.client.guarded_queue(request.path["queue"], layout=layout, type=passing, max_lateness=max_lateness)


def count_of(payload: Any) -> int:
    """How many items a request polls."""
    return int(payload.count)


@table.route(
    "POST",
    QUEUE + "/push",
    new_names=("queue",),
    scopes=PRODUCE,
    body_model=guarded_models.PushItems,
    gives=queue_answers.OFFERED,
    jobs=count_items("items"),
    example=Example(
        guarded_models.PushItems(items=[guarded_models.Pushed(body=_BODY, delay=20)]),
        [_DUE],
        _PATH,
    ),
)
async def push(request: ServiceRequest) -> list[datetime]:
    """Pushes values, each to be polled after its delay. Answers when each is due.

    Equal values are different items, except in the article's layout, where the last push decides. The header
    `Idempotency-Key` makes a repeated request harmless, unless an item was polled in between.
    """
    queue = queue_of(request, request.payload.layout)
    context = replace(queue._context, random=idempotency.mark_source(request.headers))
    pairs = [(bodies.body_of(one.body, one.body_base64, one.coded), one.delay) for one in request.payload.items]
    engine = replays.ReplayEngine(queue.engine) if idempotency.HEADER in request.headers else request.engine
    scores = await engine.run(guarded_scripts.push(context, context.members(pairs)))
    return [as_datetime(score * context.unit) for score in scores]


@table.route(
    "POST",
    QUEUE + "/poll",
    scopes=CONSUME,
    body_model=guarded_models.PollGuarded,
    gives=guarded_answers.ITEMS,
    jobs=count_of,
    problem_codes=("fallen_behind",),
    example=Example(
        guarded_models.PollGuarded(wait="30s"),
        guarded_answers.GuardedItems([guarded_answers.GuardedItem(body=_BODY, due=_DUE, lateness_ms=0.4)]),
        _PATH,
    ),
)
async def poll(request: ServiceRequest) -> list[Item[bodies.Body]]:
    """Removes and answers up to `count` items that are due, the earliest first; waits up to 60 s for one.

    A client that disconnects while it waits takes nothing. With `max_lateness` nothing is taken when the first is later.
    """
    payload = request.payload
    queue = queue_of(request, payload.layout, payload.max_lateness)
    polled = await request.run_while_connected(
        queue._poll_until(payload.count, asyncio.get_running_loop().time() + wait_seconds(payload.wait))
    )
    if polled is None:
        return []
    await request.give_back_if_gone(
        lambda: request.client.engine.run(guarded_scripts.give_back(queue._context, polled))
    )
    return queue._items(polled)


@table.route(
    "GET",
    QUEUE,
    scopes=ANY_SCOPE,
    query_model=guarded_models.GuardedQuery,
    gives=guarded_answers.GUARDED_STATS,
    example=Example(answer=GuardedStats(12, 0, _DUE, timedelta(0)), path=_PATH),
)
async def stats(request: ServiceRequest) -> GuardedStats:
    """How many items there are, how many are due, and how late the first is."""
    return await queue_of(request, request.query_model.layout).stats()


@table.route(
    "POST",
    QUEUE + "/clear",
    scopes=ADMIN,
    body_model=guarded_models.ClearGuarded,
    gives=queue_answers.CHANGED,
    example=Example(guarded_models.ClearGuarded(), True, _PATH),
)
async def clear(request: ServiceRequest) -> bool:
    """Removes all items."""
    return await queue_of(request, request.payload.layout).clear()
