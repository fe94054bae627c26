"""A relay accepts messages such as ``sender`` writes, in content types that the app accepts, for queues and exchanges that it knows.

Else every client that may add jobs to the topic, by HTTP with the scope `produce` too, would have the relay's rights at the
broker: any content type, so also pickles, any queue of any application, declared in any way.

    known   task_queues, the default queue, those that this worker consumes (-Q), queues in task_routes, a task's own `queue`,
            and `install(app, queues=…)`. Each is declared as the app has it, never as the message says.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from kombu.entity import Exchange, Queue
from kombu.serialization import prepare_accept_content

from tarry import AsyncJob
from tarry.celery.delayed_messages import WaitingMessage, WaitingTasks
from tarry.errors import BodyError

COPIES = frozenset({"cc", "bcc"})
"""Headers by which RabbitMQ delivers a message to more queues."""


class MessageRefused(Exception):
    """The message is none that this app's sender writes; it never will be."""


class UnknownQueue(Exception):
    """This relay does not know where the message goes; another one may."""


def accepted(app: Any, job: AsyncJob[WaitingMessage], known: Mapping[str, Queue]) -> tuple[WaitingMessage, list[Queue]]:
    """A stored message, checked, and the queues to declare, of those that are known. Raises ``MessageRefused`` or ``UnknownQueue``."""
    try:
        message = job.body
    except BodyError as fault:
        raise MessageRefused(f"it is no message of tarry.celery: {fault}") from None
    publish = message["publish"]
    accepts = prepare_accept_content(app.conf.accept_content) or ()
    if publish["content_type"] not in accepts:
        raise MessageRefused(
            f"its content type {publish['content_type'][:80]!r} is none that the app accepts (accept_content)"
        )
    for name in _queue_names(app, message):
        if name not in known:
            raise UnknownQueue(
                f"the queue {name[:80]!r} is not one that the app knows; name it in task_queues, or in "
                "tarry.celery.install(app, queues=[…])"
            )
    exchange = publish.get("exchange")
    if exchange and exchange not in _known_exchanges(app, known):
        raise UnknownQueue(
            f"the exchange {exchange[:80]!r} is not one that the app knows; give its queue to task_queues, or to "
            "tarry.celery.install(app, queues=[…])"
        )
    return message, [known[name] for name in message["declare"]]


def known_queues(waiting: WaitingTasks) -> dict[str, Queue]:
    """The queues that the app knows, by their names."""
    app: Any = waiting.app
    queues = app.amqp.queues
    known: dict[str, Queue] = dict(queues)
    named = [*waiting.queues, *(getattr(task, "queue", None) for task in app.tasks.values())]
    named += [route.get("queue") if isinstance(route, Mapping) else route for route in _routes(app.conf.task_routes)]
    for one in named:
        if isinstance(one, Queue):
            known.setdefault(one.name, one)
        elif isinstance(one, str) and one not in known:
            known[one] = queues.new_missing(one)
    return known


def _queue_names(app: Any, message: WaitingMessage) -> Iterator[str]:
    """The queues that a message names: to declare, by the default exchange, as copies of RabbitMQ, for its result."""
    publish = message["publish"]
    yield from message["declare"]
    if not publish.get("exchange"):
        yield publish.get("routing_key") or ""
    for header, names in publish["headers"].items():
        if str(header).lower() in COPIES:
            yield from (str(name) for name in (names if isinstance(names, list) else [names]))
    reply_to = publish.get("reply_to")
    if reply_to and str(app.conf.result_backend or "").startswith("rpc") and not _is_uuid(reply_to):
        yield reply_to  # a worker publishes the result to it; Celery's own have a UUID as name


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _known_exchanges(app: Any, queues: Mapping[str, Queue]) -> set[str]:
    exchanges: list[Any] = [app.conf.task_default_exchange]
    for queue in queues.values():
        exchanges += (queue.exchange, *(each.exchange for each in queue.bindings or ()))
    exchanges += [route.get("exchange") for route in _routes(app.conf.task_routes) if isinstance(route, Mapping)]
    return {one.name if isinstance(one, Exchange) else one for one in exchanges if one}


def _routes(routes: Any) -> Iterator[Any]:
    """The routes of ``task_routes``, one for each pattern; a function in it can name anything, and is left out."""
    if isinstance(routes, Mapping):
        yield from routes.values()
    elif isinstance(routes, list | tuple):
        for one in routes:
            if isinstance(one, tuple | list) and len(one) == 2 and not isinstance(one[0], Mapping | tuple | list):
                yield one[1]
            else:
                yield from _routes(one)
