"""What requests about shared queues have in common: names, values as JSON, and taking what must not be lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tarry.clients.http.wire import queue_answers, types
from tarry.clients.migration import MovedOver, dry_run_to_topic
from tarry.clients.migration import move_to_topic as moving_to
from tarry.core.requests import Command
from tarry.errors import BadInput
from tarry.programs.service.problems import Forbidden
from tarry.values.durations import SECOND, Duration, duration_us
from tarry.verbs.delayed import transfer
from tarry.verbs.delayed.context import QueueContext
from tarry.verbs.redisson.codecs import codec_for

if TYPE_CHECKING:
    from tarry.clients.awaited.blocking_queue import AsyncBlockingQueue
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.awaited.delayed_queue import AsyncDelayedQueue
    from tarry.programs.service.request import ServiceRequest

INTERNAL_PREFIXES = ("tarry:", "redisson_")
"""Keys that begin so belong to topics, or are the inside of other queues."""
PAGE = 1000


def wait_seconds(wait: Duration) -> float:
    """Seconds to wait. Raises ``BadInput``."""
    seconds = duration_us(wait, "wait") / SECOND
    if seconds > types.LONGEST_WAIT_S:
        raise BadInput(f"wait: at most {types.LONGEST_WAIT_S} s; ask again when they are over.")
    return seconds


def require_first_namespace(x: ServiceRequest) -> None:
    """Raises ``Forbidden`` in any namespace but the service's first."""
    if x.namespace != x.app.settings.namespaces[0]:
        raise Forbidden("Queues have no namespace; use the service's first one, and a token of it.")


def name_of(name: str) -> str:
    """The name of a queue. Raises ``BadInput`` for one that is the inside of something else."""
    if name.startswith(INTERNAL_PREFIXES):
        raise BadInput(
            f"queue: a name that begins with {' or '.join(INTERNAL_PREFIXES)} is the inside of something else."
        )
    return name


def queue_of(x: ServiceRequest, codec: str, format: str | None = None) -> AsyncDelayedQueue[Any]:
    """The queue that the path names. Raises ``BadInput``."""
    require_first_namespace(x)
    return open_queue(x, x.path["queue"], codec, format)


def open_queue(x: ServiceRequest, name: str, codec: str, format: str | None = None) -> AsyncDelayedQueue[Any]:
    """A queue by its name. Raises ``BadInput``."""
    return x.app.clients[x.app.settings.namespaces[0]].delayed_queue(name_of(name), codec=codec, format=format)


def values(given: Sequence[Any], codec: str, what: str = "values") -> list[Any]:
    """What JSON gives. Raises ``BadInput``."""
    if codec != "bytes":
        return list(given)
    try:
        return queue_answers.payloads(given)
    except (ValueError, TypeError) as fault:
        raise BadInput(f"{what}: with the codec bytes each is base64 text: {fault}.") from None


def only_one(given: Sequence[Any]) -> Any:
    """The only one. Raises ``BadInput``."""
    if len(given) != 1:
        raise BadInput(f"values: {len(given)} given; without all it is one.")
    return given[0]


def wanted_count(payload: Any) -> int:
    """How many elements a request asks for."""
    return int(payload.n)


async def put_values(client: AsyncClient, context: QueueContext[Any], given: Sequence[Any]) -> None:
    """At the end of the list, all at once."""
    payloads = [context.encode(value) for value in given]
    await client.engine.run(Command((b"RPUSH", context.keys.ready, *payloads), int))


async def set_aside(client: AsyncClient, context: QueueContext[Any], undecodable: Sequence[Any]) -> None:
    """Beside the queue, with the reasons."""
    raw = values([one.raw_base64 for one in undecodable], "bytes")
    reasons = [" ".join(one.reason.split()) for one in undecodable]
    await client.engine.run(transfer.set_aside(context.keys, list(zip(raw, reasons, strict=True))))


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def take_values(x: ServiceRequest, names: Sequence[str]) -> tuple[str | None, list[Any]]:
    """Values of the first queue that has any; what the codec cannot read is set aside, and the next ones are taken."""
    seconds = wait_seconds(x.payload.wait)
    until = asyncio.get_running_loop().time() + seconds
    queues = [x.client.blocking_queue(name, codec="bytes") for name in names]
    codec = codec_for(x.payload.codec)
    while True:
        queue, payloads = await _payloads(x, queues, x.payload.n, seconds)
        if queue is None:
            return None, []
        context = x.client.blocking_queue(queue.name, codec=codec).verbs.context
        taken = context.decode_all(payloads)
        if taken.undecodable:
            await x.client.engine.run(transfer.set_aside(context.keys, taken.undecodable))
        if taken.values:
            return queue.name, taken.values
        seconds = max(until - asyncio.get_running_loop().time(), 0)


async def _payloads(
    x: ServiceRequest, queues: Sequence[AsyncBlockingQueue[Any]], n: int, seconds: float
) -> tuple[AsyncBlockingQueue[Any] | None, list[bytes]]:
    """Payloads, as they are. A client that has gone gets nothing: they are at the head of their list again, in order."""
    found: list[bytes] = []
    for queue in queues:
        found = await queue.poll(n)
        if found:
            break
    else:
        if not seconds:
            return None, []
        pair = await x.long_running(x.client.engine.take_payload([queue.verbs.keys for queue in queues], seconds))
        if pair is None:
            return None, []
        queue, found = next(queue for queue in queues if queue.verbs.keys.ready == pair[0]), [pair[1]]
    ready = queue.verbs.keys.ready
    await x.return_if_gone(lambda: x.client.engine.run(transfer.give_back(ready, found)))
    return queue, found


# ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def move_to_topic(
    client: AsyncClient, queue: AsyncDelayedQueue[Any], topic: str, *, dry_run: bool, redirect: bool, limit: int
) -> tuple[MovedOver, bool]:
    """Some of what is not due yet, and whether that was all."""
    chosen = client.topic(topic)
    if dry_run:
        return await client.engine.run(dry_run_to_topic(queue.verbs.context, chosen.verbs)), True
    await client.engine.register_topic(topic)
    found = await client.engine.run(moving_to(queue.verbs.context, chosen.verbs, most=limit, redirect=redirect))
    return found, found.moved + found.aside < limit
