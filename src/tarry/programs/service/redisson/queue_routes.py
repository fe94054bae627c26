"""Routes of delayed queues that are shared with Java applications on Redisson, and of the blocking queues that they move into.

As in Redisson, taken elements are out of the queue. A client that disconnects while it waits loses nothing, but elements
are lost with a response that does not arrive. For work that must survive, use a topic. A take that waits also moves.
A queue has Redisson's keys and no namespace, so it needs a token of the service's first namespace.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tarry.internal import on_behalf_of, server_verbs
from tarry.programs.service.redisson import queue_elements
from tarry.programs.service.redisson.queue_elements import queue_as_said, queue_of
from tarry.programs.serving import idempotency
from tarry.programs.serving.router import RouteTable
from tarry.redisson import PoisonElement, QueueStats
from tarry.wire import topic_answers
from tarry.wire.redisson import queue_answers
from tarry.wire.redisson import queue_endpoints as endpoints

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest

table = RouteTable("delayed_queues")


# ── elements that are not due yet ──────────────────────────────────────────────────────────────────────────────────────────────


@table.handles(endpoints.OFFER)
async def offer(request: ServiceRequest) -> list[datetime]:
    """Offers elements, to be moved to the blocking queue of the same name after the delay. Answers when they are due.

    The offer is refused as `bad_input` when it is unknown which Redisson shares the queue (no `redisson`, none of the service, no `codec` and
    `format`), and when the format contradicts the one that is stored or found.
    The header `Idempotency-Key` makes a repeated request harmless, unless they became due in between.
    """
    queue = queue_as_said(request, request.payload, request.payload.format)
    marks = idempotency.mark_source(request, request.payload)
    values = queue_elements.values(request.payload.values, request.payload.codec)
    return await on_behalf_of(queue, marks=marks).offer_many(values, request.payload.delay)


@table.handles(endpoints.SIZE)
async def size(request: ServiceRequest) -> queue_answers.QueueSize:
    """How many elements are not due yet, and how many can be taken."""
    queue = queue_of(request, "bytes")
    ready = request.client.blocking_queue(queue.name, codec="bytes")
    return queue_answers.QueueSize(await queue.size(), await ready.size())


@table.handles(endpoints.LIST_ELEMENTS)
async def list_elements(request: ServiceRequest) -> queue_answers.Elements:
    """The elements that are not moved yet, in the order of offers; as base64 text if the codec gives bytes or cannot decode.

    `next` is the `start` of the next page, while there is one. A page has some 4 MB, with many small elements up to ten times as much.
    """
    verbs, found, at = server_verbs(queue_as_said(request, request.query_model)), list[Any](), request.query_model.start
    end = at + request.query_model.limit
    while True:
        wanted = min(at + queue_elements.PAGE, end)
        values, after = await request.perform(verbs.page(at, wanted - at))
        found += values
        if after < wanted or after == end:  # these were all, or their bytes were enough
            return queue_answers.elements(found, after or None)
        at = after


@table.handles(endpoints.POLL)
async def poll(request: ServiceRequest) -> queue_answers.Elements:
    """Ignores the delay: removes and answers what was offered first, whenever it is due, as Redisson does."""
    return queue_answers.elements(await queue_as_said(request, request.payload).poll_many(request.payload.limit))


@table.handles(endpoints.PASS_ON)
async def pass_on(request: ServiceRequest) -> queue_answers.Elements:
    """Moves the element that was offered last, whenever it is due, to the head of another queue's list."""
    value = await queue_as_said(request, request.payload).poll_last_and_offer_first_to(request.payload.to)
    return queue_answers.elements([] if value is None else [value])


@table.handles(endpoints.REMOVE)
async def remove(request: ServiceRequest) -> bool:
    """Removes the first element that is equal, as bytes; with `all` every element that is equal to one of the values."""
    queue, values = (
        queue_as_said(request, request.payload),
        queue_elements.values(request.payload.values, request.payload.codec),
    )
    if request.payload.all:
        return await queue.remove_all(values)
    return await queue.remove(queue_elements.only_one(values))


@table.handles(endpoints.RETAIN)
async def retain(request: ServiceRequest) -> bool:
    """Removes every element that is equal to none of the values."""
    values = queue_elements.values(request.payload.values, request.payload.codec)
    return await queue_as_said(request, request.payload).retain_all(values)


@table.handles(endpoints.CONTAINS)
async def contains(request: ServiceRequest) -> bool:
    """Whether each value has an equal element, as bytes: of those not moved yet, or with `ready` of those that can be taken."""
    queue, values = (
        queue_as_said(request, request.payload),
        queue_elements.values(request.payload.values, request.payload.codec),
    )
    if not request.payload.ready:
        return await queue.contains_all(values)
    ready = request.client.blocking_queue(queue.name, redisson=request.payload.redisson, codec=request.payload.codec)
    found = [await ready.contains(value) for value in values]
    return all(found)


@table.handles(endpoints.SET_FORMAT)
async def set_format(request: ServiceRequest) -> None:
    """Sets the queue's format after an upgrade of the Java side; offers use it from now on, whatever elements are found."""
    await queue_of(request, "bytes").set_format(request.payload.format)


@table.handles(endpoints.CLEAR)
async def clear(request: ServiceRequest) -> bool:
    """Removes all elements that are not moved yet."""
    return await queue_of(request, "bytes").clear()


@table.handles(endpoints.MIGRATE)
async def migrate(request: ServiceRequest) -> topic_answers.MigratedShown:
    """Moves about `limit` elements that are not due yet into a topic, with their due times. Repeat until it is `done`.

    Safe to interrupt and to repeat, while others offer and take.
    """
    payload, queue = request.payload, queue_as_said(request, request.payload)
    found, done = await queue_elements.migrate_elements(
        request.client, queue, payload.to, dry_run=payload.dry_run, redirect=payload.redirect, limit=payload.limit
    )
    return topic_answers.MigratedShown(moved=found.moved, poison=found.poison, done=done)


# ── the whole queue ───────────────────────────────────────────────────────────────────────────────────────────────────────


@table.handles(endpoints.STATS)
async def stats(request: ServiceRequest) -> QueueStats:
    """How many elements are in each place, and how late the first one is that is not moved."""
    return await queue_of(request, "bytes").stats()


@table.handles(endpoints.POISON)
async def poison(request: ServiceRequest) -> list[PoisonElement]:
    """The elements that could not be decoded or handled, with the reasons."""
    return await queue_of(request, "bytes").poison()


@table.handles(endpoints.ADD_POISON)
async def add_poison(request: ServiceRequest) -> None:
    """Adds payloads that were taken and could not be decoded or handled to the queue's poison, with the reasons."""
    await queue_elements.add_poison(request.client, queue_of(request, "bytes"), request.payload.elements)


# ── elements that can be taken: the lists that delayed queues move into ────────────────────────────────────────────────────────


@table.handles(endpoints.PUT)
async def put(request: ServiceRequest) -> None:
    """Appends elements, to be taken at once. A request that is repeated after a lost answer may append them twice."""
    values = queue_elements.values(request.payload.values, request.payload.codec)
    await queue_elements.put_values(
        request.client, server_verbs(queue_as_said(request, request.payload)).context, values
    )


@table.handles(endpoints.TAKE)
async def take(request: ServiceRequest) -> queue_answers.Elements:
    """Takes up to `limit` elements, also those that have just become due; waits up to 60 s for one.

    The elements are out of the queue then: nothing keeps them for a client that dies. A client that disconnects while it waits
    takes nothing.
    """
    _, values = await queue_elements.take_values(request, [queue_of(request, "bytes").name])
    return queue_answers.elements(values)


@table.handles(endpoints.TAKE_FROM_ANY)
async def take_from_any(request: ServiceRequest) -> queue_answers.TakenElements:
    """Takes elements of the first queue, in the order given, that has any; waits up to 60 s for one."""
    queue_elements.require_first_namespace(request)
    queue, values = await queue_elements.take_values(request, request.payload.queues)
    return queue_answers.TakenElements([queue_answers.plain(value) for value in values], queue)


@table.handles(endpoints.PEEK)
async def peek(request: ServiceRequest) -> queue_answers.Elements:
    """The first element that can be taken; it stays."""
    queue = queue_as_said(request, request.query_model)
    said = request.query_model
    value = await request.client.blocking_queue(queue.name, redisson=said.redisson, codec=said.codec).peek()
    return queue_answers.elements([] if value is None else [value])
