"""Routes of blocking queues that are shared with Java: the lists that delayed queues move into. A take that waits also moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarry.clients.http.wire import queue_answers, queue_models
from tarry.programs.service import shared_queues
from tarry.programs.service.router import CONSUME, PRODUCE, VIEW, Example, RouteTable, count_items
from tarry.programs.service.routes.queues import QUEUE
from tarry.programs.service.shared_queues import name_of, queue_of

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("queues")
_PATH = {"queue": "DelayMessage"}


@table.route(
    "POST",
    QUEUE + "/put",
    scopes=PRODUCE,
    body_model=queue_models.Put,
    jobs=count_items("values"),
    example=Example(queue_models.Put(values=["AAAA"], codec="river"), path=_PATH),
)
async def put(request: ServiceRequest) -> None:
    """Appends elements, to be taken at once. A request that is repeated after a lost answer may append them twice."""
    values = shared_queues.values(request.payload.values, request.payload.codec)
    await shared_queues.put_values(request.client, queue_of(request, request.payload.codec).verbs.context, values)


@table.route(
    "POST",
    QUEUE + "/take",
    scopes=CONSUME,
    body_model=queue_models.Take,
    gives=queue_answers.ELEMENTS,
    jobs=shared_queues.wanted_count,
    example=Example(queue_models.Take(wait="30s", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def take(request: ServiceRequest) -> queue_answers.Elements:
    """Takes up to `n` elements, also those that have just become due; waits up to 60 s for one.

    They are out of the queue then: nothing keeps them for a client that dies. A client that disconnects while it waits
    takes nothing.
    """
    _, values = await shared_queues.take_values(request, [queue_of(request, "bytes").name])
    return queue_answers.elements(values)


@table.route(
    "POST",
    "/v1/take",
    scopes=CONSUME,
    body_model=queue_models.TakeFromAny,
    gives=queue_answers.TAKEN,
    jobs=shared_queues.wanted_count,
    example=Example(
        queue_models.TakeFromAny(queues=["Urgent", "DelayMessage"], wait="30s", codec="river"),
        queue_answers.TakenElements(["AAAA"], "DelayMessage"),
    ),
)
async def take_from_any(request: ServiceRequest) -> queue_answers.TakenElements:
    """Takes elements of the first queue, in the order given, that has any; waits up to 60 s for one."""
    shared_queues.require_first_namespace(request)
    queue, values = await shared_queues.take_values(request, [name_of(name) for name in request.payload.queues])
    return queue_answers.TakenElements([queue_answers.plain(value) for value in values], queue)


@table.route(
    "GET",
    QUEUE + "/peek",
    scopes=VIEW,
    query_model=queue_models.QueueQuery,
    gives=queue_answers.ELEMENTS,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
async def peek(request: ServiceRequest) -> queue_answers.Elements:
    """The first element that can be taken; it stays."""
    queue = queue_of(request, request.query_model.codec)
    value = await request.client.blocking_queue(queue.name, codec=request.query_model.codec).peek()
    return queue_answers.elements([] if value is None else [value])
