"""Delayed queues that are shared with Java applications on Redisson: offering and finding, and the list of what may be taken.

What a client takes is its own from then on, as in Redisson: a client that goes while it waits loses nothing, but what an
answer that is lost on its way carried is lost. For work that must survive, use a topic.
A queue has Redisson's keys and no namespace, so a token for it is one of the service's first namespace.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tarry.clients.http.wire import queue_answers, queue_models
from tarry.programs.service import idempotency, shared_queues
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, VIEW, Example, RouteTable, count_items
from tarry.programs.service.shared_queues import name_of, queue_of
from tarry.verbs.delayed.verbs import DelayedQueueVerbs

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("queues")
QUEUE = "/v1/queues/{queue}"
_PATH = {"queue": "DelayMessage"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_ONE = queue_models.QueueValues(values=["AAAA"], codec="river")
_STATS = queue_answers.QueueStatsShown("DelayMessage", _DUE, 12, 0, 3, 0, 0, 2, _DUE, 0.0)


# ── what is not due yet ──────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "POST",
    QUEUE + "/offer",
    scopes=PRODUCE,
    body_model=queue_models.Offer,
    answer_model=queue_answers.Offered,
    jobs=count_items("values"),
    example=Example(queue_models.Offer(values=["AAAA"], delay=20, codec="river"), queue_answers.Offered([_DUE]), _PATH),
)
async def offer(x: ServiceRequest) -> queue_answers.Offered:
    """Puts elements in, to be moved to the blocking queue of the same name after the delay. Answers when they are due.

    A queue of which neither `format` nor the service's `TARRY_QUEUE_FORMAT` nor any element says which Redisson reads it is refused
    as `bad_input`, and so is a format that contradicts what is remembered or found.
    The header `Idempotency-Key` makes a repeated request harmless, unless they became due in between.
    """
    queue = queue_of(x, x.payload.codec, x.payload.format)
    context = replace(queue.verbs.context, random_marks=idempotency.mark_source(x.headers))
    values = shared_queues.values(x.payload.values, x.payload.codec)
    return queue_answers.Offered(await queue.engine.run(DelayedQueueVerbs(context).offer_many(values, x.payload.delay)))


@table.route(
    "GET",
    QUEUE,
    scopes=ANY_SCOPE,
    answer_model=queue_answers.QueueSize,
    example=Example(answer=queue_answers.QueueSize(12, 0), path=_PATH),
)
async def size(x: ServiceRequest) -> queue_answers.QueueSize:
    """How many elements wait, and how many were moved and may be taken."""
    queue = queue_of(x, "bytes")
    ready = x.client.blocking_queue(queue.name, codec="bytes")
    return queue_answers.QueueSize(await queue.size(), await ready.size())


@table.route(
    "GET",
    QUEUE + "/elements",
    scopes=VIEW,
    query_model=queue_models.ListQueueQuery,
    answer_model=queue_answers.Elements,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
async def list_elements(x: ServiceRequest) -> queue_answers.Elements:
    """The elements that are not moved yet, in the order of offers; base64 text where the codec gives bytes or cannot read.

    `next` is the `start` of the next page, while there is one.
    """
    verbs, found, at = queue_of(x, x.query_model.codec).verbs, list[Any](), x.query_model.start
    end = at + x.query_model.limit
    while True:
        values, after = await x.engine.run(verbs.page(at, min(end - at, shared_queues.PAGE)))
        found += values
        if not after or after >= end:
            return queue_answers.elements(found, after or None)
        at = after


@table.route(
    "POST",
    QUEUE + "/poll",
    scopes=CONSUME,
    body_model=queue_models.PollQueue,
    answer_model=queue_answers.Elements,
    jobs=shared_queues.wanted_count,
    example=Example(queue_models.PollQueue(codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def poll(x: ServiceRequest) -> queue_answers.Elements:
    """Ignores the delay: takes out what was offered first, whenever it is due, as Redisson does."""
    return queue_answers.elements(await queue_of(x, x.payload.codec).poll(x.payload.n))


@table.route(
    "POST",
    QUEUE + "/pass-on",
    scopes=CONSUME,
    body_model=queue_models.PassOn,
    answer_model=queue_answers.Elements,
    example=Example(queue_models.PassOn(to="Urgent", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
async def pass_on(x: ServiceRequest) -> queue_answers.Elements:
    """Takes out what was offered last, whenever it is due, and puts it first into the list of another queue."""
    value = await queue_of(x, x.payload.codec).poll_last_and_offer_first_to(name_of(x.payload.to))
    return queue_answers.elements([] if value is None else [value])


@table.route(
    "POST",
    QUEUE + "/remove",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Remove,
    answer_model=queue_answers.Changed,
    example=Example(queue_models.Remove(values=["AAAA"], codec="river"), queue_answers.Changed(True), _PATH),
)
async def remove(x: ServiceRequest) -> queue_answers.Changed:
    """Takes out the first element that is equal, as bytes; with `all` every element that is equal to one of these."""
    queue, values = queue_of(x, x.payload.codec), shared_queues.values(x.payload.values, x.payload.codec)
    if x.payload.all:
        return queue_answers.Changed(await queue.remove_all(values))
    return queue_answers.Changed(await queue.remove(shared_queues.only_one(values)))


@table.route(
    "POST",
    QUEUE + "/retain",
    scopes=ADMIN,
    body_model=queue_models.QueueValues,
    answer_model=queue_answers.Changed,
    example=Example(_ONE, queue_answers.Changed(True), _PATH),
)
async def retain(x: ServiceRequest) -> queue_answers.Changed:
    """Takes out every element that is equal to none of these."""
    values = shared_queues.values(x.payload.values, x.payload.codec)
    return queue_answers.Changed(await queue_of(x, x.payload.codec).retain_all(values))


@table.route(
    "POST",
    QUEUE + "/contains",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Contains,
    answer_model=queue_answers.Contained,
    example=Example(queue_models.Contains(values=["AAAA"], codec="river"), queue_answers.Contained(True), _PATH),
)
async def contains(x: ServiceRequest) -> queue_answers.Contained:
    """Whether for each of these an element is equal, as bytes: not moved yet, or with `ready` among those that may be taken."""
    queue, values = queue_of(x, x.payload.codec), shared_queues.values(x.payload.values, x.payload.codec)
    if not x.payload.ready:
        return queue_answers.Contained(await queue.contains_all(values))
    ready = x.client.blocking_queue(queue.name, codec=x.payload.codec)
    found = [await ready.contains(value) for value in values]
    return queue_answers.Contained(all(found))


@table.route(
    "POST",
    QUEUE + "/format",
    scopes=ADMIN,
    body_model=queue_models.SetFormat,
    example=Example(queue_models.SetFormat("Bc0Lc0"), path=_PATH),
)
async def set_format(x: ServiceRequest) -> None:
    """Says anew which format the queue has, after Java was upgraded; it is offered from now on, whatever is found."""
    await queue_of(x, "bytes").set_format(x.payload.format)


@table.route(
    "POST",
    QUEUE + "/clear",
    scopes=ADMIN,
    answer_model=queue_answers.Changed,
    example=Example(answer=queue_answers.Changed(True), path=_PATH),
)
async def clear(x: ServiceRequest) -> queue_answers.Changed:
    """Takes out everything that is not moved yet."""
    return queue_answers.Changed(await queue_of(x, "bytes").clear())


@table.route(
    "POST",
    QUEUE + "/move-to-topic",
    scopes=ADMIN,
    body_model=queue_models.MoveToTopic,
    answer_model=queue_answers.MovedShown,
    example=Example(
        queue_models.MoveToTopic(topic="orders", codec="river"), queue_answers.MovedShown(12, 0, True), _PATH
    ),
)
async def to_topic(x: ServiceRequest) -> queue_answers.MovedShown:
    """Moves what is not due yet into a topic, with its due times: about `limit` elements. Ask again until it is `done`.

    Safe to break off and to repeat, while others offer and take.
    """
    payload, queue = x.payload, queue_of(x, x.payload.codec)
    found, done = await shared_queues.move_to_topic(
        x.client, queue, payload.topic, dry_run=payload.dry_run, redirect=payload.redirect, limit=payload.limit
    )
    return queue_answers.MovedShown(found.moved, found.aside, done)


# ── as a whole ───────────────────────────────────────────────────────────────────────────────────────────────────────


@table.route(
    "GET",
    QUEUE + "/stats",
    scopes=ANY_SCOPE,
    answer_model=queue_answers.QueueStatsShown,
    example=Example(answer=_STATS, path=_PATH),
)
async def stats(x: ServiceRequest) -> queue_answers.QueueStatsShown:
    """How many elements are where, and how late the first is that is not moved."""
    return queue_answers.queue_stats(await queue_of(x, "bytes").stats())


@table.route(
    "GET",
    QUEUE + "/poison",
    scopes=VIEW,
    answer_model=queue_answers.Poison,
    example=Example(answer=queue_answers.Poison([queue_answers.AsideShown("AAAA", "truncated")]), path=_PATH),
)
async def poison(x: ServiceRequest) -> queue_answers.Poison:
    """What could not be read or handled and was set aside, with the reasons."""
    return queue_answers.poison(await queue_of(x, "bytes").poison())


@table.route(
    "POST",
    QUEUE + "/aside",
    scopes=CONSUME,
    body_model=queue_models.Aside,
    example=Example(queue_models.Aside([queue_models.Unread("AAAA", "handler: KeyError: 'id'")]), path=_PATH),
)
async def aside(x: ServiceRequest) -> None:
    """Sets aside payloads that were taken and could not be used, with the reasons."""
    await shared_queues.set_aside(x.client, queue_of(x, "bytes").verbs.context, x.payload.elements)
