"""Routes of blocking queues that are shared with Java: the lists that delayed queues move into. A take that waits also moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarry.clients.http.wire import queue_answers
from tarry.clients.http.wire.endpoints import queues as endpoints
from tarry.programs.service import shared_queues
from tarry.programs.service.router import RouteTable
from tarry.programs.service.shared_queues import name_of, queue_of

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("queues")


@table.handles(endpoints.PUT)
async def put(request: ServiceRequest) -> None:
    """Appends elements, to be taken at once. A request that is repeated after a lost answer may append them twice."""
    values = shared_queues.values(request.payload.values, request.payload.codec)
    await shared_queues.put_values(request.client, queue_of(request, request.payload.codec).verbs.context, values)


@table.handles(endpoints.TAKE)
async def take(request: ServiceRequest) -> queue_answers.Elements:
    """Takes up to `n` elements, also those that have just become due; waits up to 60 s for one.

    They are out of the queue then: nothing keeps them for a client that dies. A client that disconnects while it waits
    takes nothing.
    """
    _, values = await shared_queues.take_values(request, [queue_of(request, "bytes").name])
    return queue_answers.elements(values)


@table.handles(endpoints.TAKE_FROM_ANY)
async def take_from_any(request: ServiceRequest) -> queue_answers.TakenElements:
    """Takes elements of the first queue, in the order given, that has any; waits up to 60 s for one."""
    shared_queues.require_first_namespace(request)
    queue, values = await shared_queues.take_values(request, [name_of(name) for name in request.payload.queues])
    return queue_answers.TakenElements([queue_answers.plain(value) for value in values], queue)


@table.handles(endpoints.PEEK)
async def peek(request: ServiceRequest) -> queue_answers.Elements:
    """The first element that can be taken; it stays."""
    queue = queue_of(request, request.query_model.codec)
    value = await request.client.blocking_queue(queue.name, codec=request.query_model.codec).peek()
    return queue_answers.elements([] if value is None else [value])
