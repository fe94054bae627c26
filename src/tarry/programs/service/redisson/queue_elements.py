"""Shared by the routes about queues: names, values as JSON, and taking elements without losing them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tarry import Migrated
from tarry.errors import BadInput
from tarry.internal import SECOND, Command, duration_us, perform, server_verbs
from tarry.programs.serving.problems import Forbidden
from tarry.types import Duration
from tarry.wire import types
from tarry.wire.redisson import queue_answers

if TYPE_CHECKING:
    from tarry import AsyncClient
    from tarry.programs.serving.request import ServiceRequest
    from tarry.redisson import AsyncBlockingQueue, AsyncDelayedQueue

PAGE = 1000


def wait_seconds(wait: Duration) -> float:
    """A duration in seconds. Raises ``BadInput`` when it is too long."""
    seconds = duration_us(wait, "wait") / SECOND
    if seconds > types.LONGEST_WAIT_S:
        raise BadInput(f"wait: at most {types.LONGEST_WAIT_S} s; send the request again after that.")
    return seconds


def require_first_namespace(request: ServiceRequest) -> None:
    """Raises ``Forbidden`` in any namespace but the service's first."""
    if request.namespace != request.app.settings.namespaces[0]:
        raise Forbidden("Queues have no namespace; use the service's first one, and a token of it.")


def queue_of(request: ServiceRequest, codec: str) -> AsyncDelayedQueue[Any]:
    """The queue that the path names. Raises ``BadInput``."""
    require_first_namespace(request)
    return open_queue(request, request.path["queue"], codec)


def queue_as_said(request: ServiceRequest, said: Any, format: str | None = None) -> AsyncDelayedQueue[Any]:
    """The queue that the path names, with the codec or Redisson of a request's model. Raises ``BadInput``."""
    require_first_namespace(request)
    return open_queue(request, request.path["queue"], said.codec, format, said.redisson)


def open_queue(
    request: ServiceRequest, name: str, codec: str | None, format: str | None = None, redisson: str | None = None
) -> AsyncDelayedQueue[Any]:
    """A queue by its name. Raises ``BadInput``."""
    return request.app.clients[request.app.settings.namespaces[0]].delayed_queue(
        name, redisson=redisson, codec=codec, format=format
    )


def values(given: Sequence[Any], codec: str | None, what: str = "values") -> list[Any]:
    """Values as JSON gives them; with the codec ``bytes``, decoded from base64. Raises ``BadInput``."""
    if codec != "bytes":
        return list(given)
    try:
        return queue_answers.payloads(given)
    except (ValueError, TypeError) as fault:
        raise BadInput(f"{what}: with the codec bytes each is base64 text: {fault}.") from None


def only_one(given: Sequence[Any]) -> Any:
    """The only value. Raises ``BadInput`` if there are more, or none."""
    if len(given) != 1:
        raise BadInput(f"values: {len(given)} given; without all it is one.")
    return given[0]


async def put_values(client: AsyncClient, context: Any, given: Sequence[Any]) -> None:
    """Appends values to the list, all at once."""
    payloads = [context.encode(value) for value in given]
    await perform(client, Command((b"RPUSH", context.keys.ready, *payloads), int))


async def add_poison(client: AsyncClient, queue: AsyncDelayedQueue[Any], undecodable: Sequence[Any]) -> None:
    """Moves payloads that were taken to the queue's poison list, with the reasons."""
    raw = values([one.raw_base64 for one in undecodable], "bytes")
    reasons = [" ".join(one.reason.split()) for one in undecodable]
    await perform(client, server_verbs(queue).add_poison(list(zip(raw, reasons, strict=True))))


# ── popping ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def take_values(request: ServiceRequest, names: Sequence[str]) -> tuple[str | None, list[Any]]:
    """Takes values of the first queue that has any. Payloads that the codec cannot read are set aside; then it takes the next."""
    seconds = wait_seconds(request.payload.wait)
    until = asyncio.get_running_loop().time() + seconds
    queues = [request.client.blocking_queue(name, codec="bytes") for name in names]
    said = request.payload
    asked = server_verbs(request.client.blocking_queue(names[0], redisson=said.redisson, codec=said.codec)).context
    asked.require_codec()
    while True:
        queue, payloads = await _payloads(request, queues, request.payload.limit, seconds)
        if queue is None:
            return None, []
        verbs = server_verbs(request.client.blocking_queue(queue.name, codec=asked.codec))
        taken = verbs.context.decode_all(payloads)
        if taken.undecodable:
            await perform(request.client, verbs.add_poison(taken.undecodable))
        if taken.values:
            return queue.name, taken.values
        seconds = max(until - asyncio.get_running_loop().time(), 0)


async def _payloads(
    request: ServiceRequest, queues: Sequence[AsyncBlockingQueue[Any]], limit: int, seconds: float
) -> tuple[AsyncBlockingQueue[Any] | None, list[bytes]]:
    """Takes raw payloads. Those that nobody may have any more go back to the head of their list, in order."""
    found: list[bytes] = []
    for queue in queues:
        found = await queue.poll_many(limit)
        if found:
            break
    else:
        if not seconds:
            return None, []
        names = [queue.name for queue in queues]
        taken = await request.run_while_wanted(queues[0].poll_from_any_with_name(*names[1:], wait=seconds))
        if taken is None:
            return None, []
        queue, found = queues[names.index(taken[0])], [taken[1]]
    await request.keep_or_give_back(found, lambda: perform(request.client, server_verbs(queue).give_back(found)))
    return queue, found


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def migrate_elements(
    client: AsyncClient, queue: AsyncDelayedQueue[Any], topic: str, *, dry_run: bool, redirect: bool, limit: int
) -> tuple[Migrated, bool]:
    """Moves up to ``limit`` elements that are not due yet; returns the counts, and whether these were all."""
    found = await client.migrate_queue(queue, topic, dry_run=dry_run, redirect=redirect, limit=limit)
    return found, dry_run or found.moved + found.poison < limit
