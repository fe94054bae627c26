"""Guarded queues (article 002's): values go in with a delay, and come out when they are due.

What was polled is out of the queue: a client that goes while it waits loses nothing, but what an answer that is lost on its
way carried is lost. Topics keep jobs until they are finished.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.clients.http.wire import bodies, guarded_answers, guarded_models, queue_answers
from tarry.programs.service import idempotency, replays
from tarry.programs.service.problems import Forbidden
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Example, RouteTable, count_items
from tarry.programs.service.shared_queues import wait_seconds
from tarry.values.durations import as_datetime
from tarry.verbs.guarded import guarded_scripts

if TYPE_CHECKING:
    from tarry.clients.awaited.guarded_queue import AsyncGuardedQueue
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("guarded")
QUEUE = "/v1/guarded/{queue}"
_PATH = {"queue": "reminders"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"to": "ann"}')


def queue_of(x: ServiceRequest, layout: str, max_lateness: Any = None) -> AsyncGuardedQueue[bodies.Body]:
    """The queue that the path names, whose values pass through as they are. Raises ``BadInput``."""
    if layout == "article" and x.namespace != x.app.settings.namespaces[0]:
        raise Forbidden("The article's layout has no namespace; use the service's first one, and a token of it.")
    passing = bodies.PassThroughCodec(x.app.settings.max_body)
    return x.client.guarded_queue(x.path["queue"], layout=layout, type=passing, max_lateness=max_lateness)


def count_of(payload: Any) -> int:
    """How many items a request asks for."""
    return int(payload.count)


@table.route(
    "POST",
    QUEUE + "/push",
    makes=("queue",),
    scopes=PRODUCE,
    body_model=guarded_models.PushItems,
    answer_model=queue_answers.Offered,
    jobs=count_items("items"),
    example=Example(
        guarded_models.PushItems(items=[guarded_models.Pushed(body=_BODY, delay=20)]),
        queue_answers.Offered([_DUE]),
        _PATH,
    ),
)
async def push(x: ServiceRequest) -> queue_answers.Offered:
    """Puts values in, each to be handed out after its delay. Answers when each is due.

    Equal values are different items, but in the article's layout, where the last push decides. The header
    `Idempotency-Key` makes a repeated request harmless, unless an item was polled in between.
    """
    queue = queue_of(x, x.payload.layout)
    context = replace(queue._context, random=idempotency.mark_source(x.headers))
    pairs = [(bodies.body_of(one.body, one.body_base64, one.coded), one.delay) for one in x.payload.items]
    engine = replays.ReplayEngine(queue.engine) if idempotency.HEADER in x.headers else x.engine
    scores = await engine.run(guarded_scripts.push(context, context.members(pairs)))
    return queue_answers.Offered([as_datetime(score * context.unit) for score in scores])


@table.route(
    "POST",
    QUEUE + "/poll",
    scopes=CONSUME,
    body_model=guarded_models.PollGuarded,
    answer_model=guarded_answers.GuardedItems,
    jobs=count_of,
    problem_codes=("fallen_behind",),
    example=Example(
        guarded_models.PollGuarded(wait="30s"),
        guarded_answers.GuardedItems([guarded_answers.GuardedItem(body=_BODY, due=_DUE, lateness_ms=0.4)]),
        _PATH,
    ),
)
async def poll(x: ServiceRequest) -> guarded_answers.GuardedItems:
    """Takes out up to `count` items that are due, the first first; waits up to 60 s for one.

    A client that goes while it waits is handed nothing. With `max_lateness` nothing is taken when the first is later.
    """
    payload = x.payload
    queue = queue_of(x, payload.layout, payload.max_lateness)
    polled = await x.long_running(
        queue._poll_until(payload.count, asyncio.get_running_loop().time() + wait_seconds(payload.wait))
    )
    if polled is None:
        return guarded_answers.GuardedItems([])
    await x.return_if_gone(lambda: x.client.engine.run(guarded_scripts.give_back(queue._context, polled)))
    return guarded_answers.items(queue._items(polled))


@table.route(
    "GET",
    QUEUE,
    scopes=ANY_SCOPE,
    query_model=guarded_models.GuardedQuery,
    answer_model=guarded_answers.GuardedStatsShown,
    example=Example(answer=guarded_answers.GuardedStatsShown(12, 0, _DUE, 0.0), path=_PATH),
)
async def stats(x: ServiceRequest) -> guarded_answers.GuardedStatsShown:
    """How many items there are, how many are due, and how late the first is."""
    return guarded_answers.guarded_stats(await queue_of(x, x.query_model.layout).stats())


@table.route(
    "POST",
    QUEUE + "/clear",
    scopes=ADMIN,
    body_model=guarded_models.ClearGuarded,
    answer_model=queue_answers.Changed,
    example=Example(guarded_models.ClearGuarded(), queue_answers.Changed(True), _PATH),
)
async def clear(x: ServiceRequest) -> queue_answers.Changed:
    """Takes out everything."""
    return queue_answers.Changed(await queue_of(x, x.payload.layout).clear())
