"""Routes of delayed queues that are shared with Java applications on Redisson.

As in Redisson, taken elements are out of the queue. A client that disconnects while it waits loses nothing, but elements
are lost with a response that does not arrive. For work that must survive, use a topic.
A queue has Redisson's keys and no namespace, so it needs a token of the service's first namespace.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tarry.clients.http.wire import queue_answers, queue_models
from tarry.programs.service import idempotency, shared_queues
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, VIEW, Example, RouteTable, count_items
from tarry.programs.service.shared_queues import name_of, queue_of
from tarry.verbs.delayed.stats import QueueStats
from tarry.verbs.delayed.transfer import SetAside
from tarry.verbs.delayed.verbs import DelayedQueueVerbs

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("queues")
QUEUE = "/v1/queues/{queue}"
_PATH = {"queue": "DelayMessage"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_ONE = queue_models.QueueValues(values=["AAAA"], codec="river")
_STATS = QueueStats("DelayMessage", _DUE, 12, 0, 3, 0, 0, 2, _DUE)


# ── elements that are not due yet ──────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "POST",
    QUEUE + "/offer",
    scopes=PRODUCE,
    body_model=queue_models.Offer,
    gives=queue_answers.OFFERED,
    jobs=count_items("values"),
    example=Example(queue_models.Offer(values=["AAAA"], delay=20, codec="river"), [_DUE], _PATH),
)
async def offer(request: ServiceRequest) -> list[datetime]:
    """Offers elements, to be moved to the blocking queue of the same name after the delay. Answers when they are due.

    It is refused as `bad_input` when the queue's Redisson format is unknown (no `format`, no `TARRY_QUEUE_FORMAT` of the
    service, no element to learn it from), and when `format` contradicts the format that is stored or found.
    The header `Idempotency-Key` makes a repeated request harmless, unless they became due in between.
    """
    queue = queue_of(request, request.payload.codec, request.payload.format)
    context = replace(queue.verbs.context, random_marks=idempotency.mark_source(request.headers))
    values = shared_queues.values(request.payload.values, request.payload.codec)
    return await queue.engine.run(DelayedQueueVerbs(context).offer_many(values, request.payload.delay))


@table.route(
    "GET",
    QUEUE,
    scopes=ANY_SCOPE,
    gives=queue_answers.QUEUE_SIZE,
    example=Example(answer=queue_answers.QueueSize(12, 0), path=_PATH),
)
async def size(request: ServiceRequest) -> queue_answers.QueueSize:
    """How many elements are not due yet, and how many can be taken."""
    queue = queue_of(request, "bytes")
    ready = request.client.blocking_queue(queue.name, codec="bytes")
    return queue_answers.QueueSize(await queue.size(), await ready.size())


@table.route(
    "GET",
    QUEUE + "/elements",
    scopes=VIEW,
    query_model=queue_models.ListQueueQuery,
    gives=queue_answers.ELEMENTS,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
async def list_elements(request: ServiceRequest) -> queue_answers.Elements:
    """The elements that are not moved yet, in the order of offers; as base64 text if the codec gives bytes or cannot decode.

    `next` is the `start` of the next page, while there is one.
    """
    verbs, found, at = queue_of(request, request.query_model.codec).verbs, list[Any](), request.query_model.start
    end = at + request.query_model.limit
    while True:
        values, after = await request.engine.run(verbs.page(at, min(end - at, shared_queues.PAGE)))
        found += values
        if not after or after >= end:
            return queue_answers.elements(found, after or None)
        at = after


@table.route(
    "POST",
    QUEUE + "/poll",
    scopes=CONSUME,
    body_model=queue_models.PollQueue,
    gives=queue_answers.ELEMENTS,
    jobs=shared_queues.wanted_count,
    example=Example(queue_models.PollQueue(codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def poll(request: ServiceRequest) -> queue_answers.Elements:
    """Ignores the delay: removes and answers what was offered first, whenever it is due, as Redisson does."""
    return queue_answers.elements(await queue_of(request, request.payload.codec).poll(request.payload.n))


@table.route(
    "POST",
    QUEUE + "/pass-on",
    scopes=CONSUME,
    body_model=queue_models.PassOn,
    gives=queue_answers.ELEMENTS,
    example=Example(queue_models.PassOn(to="Urgent", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def pass_on(request: ServiceRequest) -> queue_answers.Elements:
    """Moves the element that was offered last, whenever it is due, to the head of another queue's list."""
    value = await queue_of(request, request.payload.codec).poll_last_and_offer_first_to(name_of(request.payload.to))
    return queue_answers.elements([] if value is None else [value])


@table.route(
    "POST",
    QUEUE + "/remove",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Remove,
    gives=queue_answers.CHANGED,
    example=Example(queue_models.Remove(values=["AAAA"], codec="river"), True, _PATH),
)
async def remove(request: ServiceRequest) -> bool:
    """Removes the first element that is equal, as bytes; with `all` every element that is equal to one of the values."""
    queue, values = (
        queue_of(request, request.payload.codec),
        shared_queues.values(request.payload.values, request.payload.codec),
    )
    if request.payload.all:
        return await queue.remove_all(values)
    return await queue.remove(shared_queues.only_one(values))


@table.route(
    "POST",
    QUEUE + "/retain",
    scopes=ADMIN,
    body_model=queue_models.QueueValues,
    gives=queue_answers.CHANGED,
    example=Example(_ONE, True, _PATH),
)
async def retain(request: ServiceRequest) -> bool:
    """Removes every element that is equal to none of the values."""
    values = shared_queues.values(request.payload.values, request.payload.codec)
    return await queue_of(request, request.payload.codec).retain_all(values)


@table.route(
    "POST",
    QUEUE + "/contains",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Contains,
    gives=queue_answers.CONTAINED,
    example=Example(queue_models.Contains(values=["AAAA"], codec="river"), True, _PATH),
)
async def contains(request: ServiceRequest) -> bool:
    """Whether each value has an equal element, as bytes: of those not moved yet, or with `ready` of those that can be taken."""
    queue, values = (
        queue_of(request, request.payload.codec),
        shared_queues.values(request.payload.values, request.payload.codec),
    )
    if not request.payload.ready:
        return await queue.contains_all(values)
    ready = request.client.blocking_queue(queue.name, codec=request.payload.codec)
    found = [await ready.contains(value) for value in values]
    return all(found)


@table.route(
    "POST",
    QUEUE + "/format",
    scopes=ADMIN,
    body_model=queue_models.SetFormat,
    example=Example(queue_models.SetFormat("Bc0Lc0"), path=_PATH),
)
async def set_format(request: ServiceRequest) -> None:
    """Sets the queue's format after an upgrade of the Java side; offers use it from now on, whatever elements are found."""
    await queue_of(request, "bytes").set_format(request.payload.format)


@table.route(
    "POST",
    QUEUE + "/clear",
    scopes=ADMIN,
    gives=queue_answers.CHANGED,
    example=Example(answer=True, path=_PATH),
)
async def clear(request: ServiceRequest) -> bool:
    """Removes all elements that are not moved yet."""
    return await queue_of(request, "bytes").clear()


@table.route(
    "POST",
    QUEUE + "/move-to-topic",
    scopes=ADMIN,
    body_model=queue_models.MoveToTopic,
    gives=queue_answers.MOVED,
    example=Example(
        queue_models.MoveToTopic(topic="orders", codec="river"), queue_answers.MovedShown(12, 0, True), _PATH
    ),
)
async def to_topic(request: ServiceRequest) -> queue_answers.MovedShown:
    """Moves about `limit` elements that are not due yet into a topic, with their due times. Repeat until it is `done`.

    Safe to interrupt and to repeat, while others offer and take.
    """
    payload, queue = request.payload, queue_of(request, request.payload.codec)
    found, done = await shared_queues.move_to_topic(
        request.client, queue, payload.topic, dry_run=payload.dry_run, redirect=payload.redirect, limit=payload.limit
    )
    return queue_answers.MovedShown(found.moved, found.aside, done)


# ── the whole queue ───────────────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "GET",
    QUEUE + "/stats",
    scopes=ANY_SCOPE,
    gives=queue_answers.QUEUE_STATS,
    example=Example(answer=_STATS, path=_PATH),
)
async def stats(request: ServiceRequest) -> QueueStats:
    """How many elements are in each place, and how late the first one is that is not moved."""
    return await queue_of(request, "bytes").stats()


@table.route(
    "GET",
    QUEUE + "/poison",
    scopes=VIEW,
    gives=queue_answers.POISON,
    example=Example(answer=[SetAside(b"\0\0\0", "truncated")], path=_PATH),
)
async def poison(request: ServiceRequest) -> list[SetAside]:
    """The elements that could not be decoded or handled and were set aside, with the reasons."""
    return await queue_of(request, "bytes").poison()


@table.route(
    "POST",
    QUEUE + "/aside",
    scopes=CONSUME,
    body_model=queue_models.Aside,
    example=Example(queue_models.Aside([queue_models.Unread("AAAA", "handler: KeyError: 'id'")]), path=_PATH),
)
async def aside(request: ServiceRequest) -> None:
    """Sets aside payloads that were taken and could not be decoded or handled, with the reasons."""
    await shared_queues.set_aside(request.client, queue_of(request, "bytes").verbs.context, request.payload.elements)
