"""What may be taken from shared queues: the lists that delayed queues move into. Who waits here keeps them moving."""

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
async def put(x: ServiceRequest) -> None:
    """Puts elements at the end, to be taken at once. Repeated after a lost answer they may be there twice."""
    values = shared_queues.values(x.payload.values, x.payload.codec)
    await shared_queues.put_values(x.client, queue_of(x, x.payload.codec).verbs.context, values)


@table.route(
    "POST",
    QUEUE + "/take",
    scopes=CONSUME,
    body_model=queue_models.Take,
    answer_model=queue_answers.Elements,
    jobs=shared_queues.wanted_count,
    example=Example(queue_models.Take(wait="30s", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def take(x: ServiceRequest) -> queue_answers.Elements:
    """Up to `n` elements that may be taken, what is due among them; waits up to 60 s for one.

    They are the client's from then on. A client that goes while it waits is handed nothing.
    """
    _, values = await shared_queues.take_values(x, [queue_of(x, "bytes").name])
    return queue_answers.elements(values)


@table.route(
    "POST",
    "/v1/take",
    scopes=CONSUME,
    body_model=queue_models.TakeFromAny,
    answer_model=queue_answers.TakenElements,
    jobs=shared_queues.wanted_count,
    example=Example(
        queue_models.TakeFromAny(queues=["Urgent", "DelayMessage"], wait="30s", codec="river"),
        queue_answers.TakenElements(["AAAA"], "DelayMessage"),
    ),
)
async def take_from_any(x: ServiceRequest) -> queue_answers.TakenElements:
    """Elements of the first queue, in the order given, that has any; waits up to 60 s for one of them."""
    shared_queues.require_first_namespace(x)
    queue, values = await shared_queues.take_values(x, [name_of(name) for name in x.payload.queues])
    return queue_answers.TakenElements([queue_answers.plain(value) for value in values], queue)


@table.route(
    "GET",
    QUEUE + "/peek",
    scopes=VIEW,
    query_model=queue_models.QueueQuery,
    answer_model=queue_answers.Elements,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
async def peek(x: ServiceRequest) -> queue_answers.Elements:
    """The first element that may be taken; it stays."""
    queue = queue_of(x, x.query_model.codec)
    value = await x.client.blocking_queue(queue.name, codec=x.query_model.codec).peek()
    return queue_answers.elements([] if value is None else [value])
