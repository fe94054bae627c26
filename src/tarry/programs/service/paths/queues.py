"""Delayed queues that are shared with Java applications on Redisson: offering, and looking.

A queue has Redisson's keys and no namespace, so a token for it is one of the service's first namespace.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tarry.clients.http import answers, models
from tarry.errors import BadInput
from tarry.programs.service.problems import Forbidden
from tarry.programs.service.table import CONSUME, PRODUCE, Example, Table, each

if TYPE_CHECKING:
    from tarry.clients.aio.delayed import AsyncDelayedQueue
    from tarry.programs.service.exchange import Exchange

table = Table("queues")
QUEUE = "/v1/queues/{queue}"
_PATH = {"queue": "DelayMessage"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
OURS = ("tarry:", "redisson_")
"""Keys that begin so belong to topics, or are the inside of other queues."""


def queue_of(x: Exchange, codec: str, format: str | None = None) -> AsyncDelayedQueue[Any]:
    """The queue that the path names. Raises ``BadInput``."""
    if x.namespace != x.door.settings.namespaces[0]:
        raise Forbidden("Queues have no namespace; use the service's first one, and a token of it.")
    return open_queue(x, x.path["queue"], codec, format)


def open_queue(x: Exchange, name: str, codec: str, format: str | None = None) -> AsyncDelayedQueue[Any]:
    """A queue by its name. Raises ``BadInput`` for one that is the inside of something else."""
    if name.startswith(OURS):
        raise BadInput(f"queue: a name that begins with {' or '.join(OURS)} is the inside of something else.")
    return x.door.clients[x.door.settings.namespaces[0]].delayed_queue(name, codec=codec, format=format)


@table.row(
    "POST",
    QUEUE + "/offer",
    may=PRODUCE,
    takes=models.Offer,
    gives=answers.Offered,
    jobs=each("values"),
    example=Example(models.Offer(values=["AAAA"], delay=20, codec="river"), answers.Offered([_DUE]), _PATH),
)
async def offer(x: Exchange) -> answers.Offered:
    """Puts elements in, to be moved to the blocking queue of the same name after the delay. Answers when they are due."""
    said = x.said
    queue = queue_of(x, said.codec, said.format)
    values = said.values
    if said.codec == "bytes":
        from base64 import b64decode

        try:
            values = [b64decode(value, validate=True) for value in values]
        except (ValueError, TypeError) as fault:
            raise BadInput(f"values: with the codec bytes each is base64 text: {fault}.") from None
    return answers.Offered(await queue.offer_many(values, said.delay))


@table.row(
    "GET",
    QUEUE,
    may=PRODUCE | CONSUME,
    gives=answers.QueueSize,
    example=Example(answer=answers.QueueSize(12, 0), path=_PATH),
)
async def size(x: Exchange) -> answers.QueueSize:
    """How many elements wait, and how many were moved and may be taken."""
    queue = queue_of(x, "bytes")
    ready = x.client.blocking_queue(queue.name, codec="bytes")
    return answers.QueueSize(await queue.size(), await ready.size())


@table.row(
    "GET",
    QUEUE + "/elements",
    may=CONSUME,
    asks=models.ListQueueQuery,
    gives=answers.Elements,
    example=Example(answer=answers.Elements(["AAAA"]), path=_PATH),
)
async def list_elements(x: Exchange) -> answers.Elements:
    """The elements that are not moved yet, in the order of offers; base64 text where the codec gives bytes or cannot read."""
    found: list[Any] = []
    async for value in queue_of(x, x.asked.codec):
        found.append(value)
        if len(found) == x.asked.limit:
            break
    return answers.elements(found)
