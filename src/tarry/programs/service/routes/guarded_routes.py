"""Routes of guarded queues: values are pushed with a delay, and polled when they are due.

Polled items are out of the queue. A client that disconnects while it waits loses nothing, but items are lost with a response
that does not arrive. Topics keep jobs until they are finished.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tarry.internal import on_behalf_of, perform, replaying
from tarry.programs.service.redisson.queue_elements import wait_seconds
from tarry.programs.serving import idempotency
from tarry.programs.serving.problems import Forbidden
from tarry.programs.serving.router import RouteTable
from tarry.types import GuardedItem, GuardedStats
from tarry.wire import bodies
from tarry.wire.endpoints import guarded_endpoints as endpoints

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest
    from tarry.types import AsyncGuardedQueue

table = RouteTable("guarded_queues")


def queue_of(request: ServiceRequest, layout: str, max_lateness: Any = None) -> AsyncGuardedQueue[bodies.Body]:
    """The queue of the path; its values pass through undecoded. Raises ``BadInput``."""
    if layout == "java" and request.namespace != request.app.settings.namespaces[0]:
        raise Forbidden("layout java has no namespace; use the service's first one, and a token of it.")
    passing = bodies.PassThroughCodec(request.app.settings.max_job_body)
    return request.client.guarded_queue(request.path["queue"], layout=layout, type=passing, max_lateness=max_lateness)


@table.handles(endpoints.PUSH)
async def push(request: ServiceRequest) -> list[datetime]:
    """Pushes values, each to be polled after its delay. Answers when each is due.

    Equal values are different items, except with `layout=java`, where the last push decides. The header
    `Idempotency-Key` makes a repeated request harmless, unless an item was polled in between.
    """
    marks = idempotency.mark_source(request, request.payload)
    queue = on_behalf_of(queue_of(request, request.payload.layout), marks=marks)
    pairs = [(bodies.body_of(one.body, one.body_base64, one.coded), one.delay) for one in request.payload.items]
    if request.is_repeated or idempotency.HEADER in request.headers:
        queue = replaying(queue)
    return await queue.push(pairs)


@table.handles(endpoints.POLL)
async def poll(request: ServiceRequest) -> list[GuardedItem[bodies.Body]]:
    """Removes and answers up to `limit` items that are due, the earliest first; waits up to 60 s for one.

    A client that disconnects while it waits takes nothing. With `max_lateness` nothing is taken when the first is later.
    """
    payload = request.payload
    queue = queue_of(request, payload.layout, payload.max_lateness)
    items = await request.run_while_wanted(queue.poll_many(payload.limit, wait=wait_seconds(payload.wait)))
    return await request.keep_or_give_back(items, lambda: perform(request.client, queue.context.give_back(items)))


@table.handles(endpoints.STATS)
async def stats(request: ServiceRequest) -> GuardedStats:
    """How many items there are, how many are due, and how late the first is."""
    return await queue_of(request, request.query_model.layout).stats()


@table.handles(endpoints.CLEAR)
async def clear(request: ServiceRequest) -> bool:
    """Removes all items."""
    return await queue_of(request, request.payload.layout).clear()
