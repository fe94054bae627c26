"""What may be taken from shared queues: the lists that delayed queues move into. Who waits here keeps them moving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarry.clients.http.wire import queue_answers, queue_models
from tarry.programs.service import sharing
from tarry.programs.service.paths.queues import QUEUE
from tarry.programs.service.sharing import name_of, queue_of
from tarry.programs.service.table import CONSUME, PRODUCE, SEE, Example, Table, each

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange

table = Table("queues")
_PATH = {"queue": "DelayMessage"}


@table.row(
    "POST",
    QUEUE + "/put",
    may=PRODUCE,
    takes=queue_models.Put,
    jobs=each("values"),
    example=Example(queue_models.Put(values=["AAAA"], codec="river"), path=_PATH),
)
async def put(x: Exchange) -> None:
    """Puts elements at the end, to be taken at once. Repeated after a lost answer they may be there twice."""
    values = sharing.values(x.said.values, x.said.codec)
    await sharing.put(x.client, queue_of(x, x.said.codec).verbs.context, values)


@table.row(
    "POST",
    QUEUE + "/take",
    may=CONSUME,
    takes=queue_models.Take,
    gives=queue_answers.Elements,
    jobs=sharing.wanted,
    example=Example(queue_models.Take(wait="30s", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def take(x: Exchange) -> queue_answers.Elements:
    """Up to `n` elements that may be taken, what is due among them; waits up to 60 s for one.

    They are the client's from then on. A client that goes while it waits is handed nothing.
    """
    _, values = await sharing.take(x, [queue_of(x, "bytes").name])
    return queue_answers.elements(values)


@table.row(
    "POST",
    "/v1/take",
    may=CONSUME,
    takes=queue_models.TakeFromAny,
    gives=queue_answers.TakenElements,
    jobs=sharing.wanted,
    example=Example(
        queue_models.TakeFromAny(queues=["Urgent", "DelayMessage"], wait="30s", codec="river"),
        queue_answers.TakenElements(["AAAA"], "DelayMessage"),
    ),
)
async def take_from_any(x: Exchange) -> queue_answers.TakenElements:
    """Elements of the first queue, in the order given, that has any; waits up to 60 s for one of them."""
    sharing.own(x)
    queue, values = await sharing.take(x, [name_of(name) for name in x.said.queues])
    return queue_answers.TakenElements([queue_answers.plain(value) for value in values], queue)


@table.row(
    "GET",
    QUEUE + "/peek",
    may=SEE,
    asks=queue_models.QueueQuery,
    gives=queue_answers.Elements,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
async def peek(x: Exchange) -> queue_answers.Elements:
    """The first element that may be taken; it stays."""
    queue = queue_of(x, x.asked.codec)
    value = await x.client.blocking_queue(queue.name, codec=x.asked.codec).peek()
    return queue_answers.elements([] if value is None else [value])
