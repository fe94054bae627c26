"""Combining flows: perform several in step, and intercept a flow's requests and replies.

flows            a1 a2 a3       b1 b2       c1 c2 c3
gather asks      Batch[a1 b1 c1]      Batch[a2 b2 c2]      Batch[a3 c3]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tarry.core.requests import Batch, Flow, Request

T = TypeVar("T")


def gather(flows: Iterable[Flow[T]]) -> Flow[list[T]]:
    """Performs flows in step and returns the result of each. If one fails, the others still get the replies of that step, then
    all end, and the first error is raised."""
    running = list(flows)
    results: list[Any] = [None] * len(running)
    replies: dict[int, Any] = dict.fromkeys(range(len(running)))
    try:
        while replies:
            steps: list[tuple[int, Any]] = []
            errors: list[Exception] = []
            for index, reply in replies.items():
                try:
                    steps.append((index, _advance(running[index], reply)))
                except StopIteration as end:
                    results[index] = end.value
                except Exception as error:  # noqa: BLE001  # raised below, when the others have their replies
                    errors.append(error)
            if errors:
                raise errors[0]
            replies = (yield from _perform_steps(steps)) if steps else {}
    finally:
        for flow in running:
            flow.close()
    return results


def _advance(flow: Flow[Any], reply: Any) -> Any:
    return flow.throw(reply) if isinstance(reply, Exception) else flow.send(reply)


def _perform_steps(steps: list[tuple[int, Any]]) -> Flow[dict[int, Any]]:
    """Sends the next step of each flow in one batch, and returns the reply to each by the flow's index."""
    requests = [request for _, step in steps for request in _requests_of(step)]
    replies: list[Any]
    if len(requests) != 1:
        replies = yield Batch(requests)
    else:
        try:
            replies = [(yield requests[0])]
        except Exception as error:  # noqa: BLE001  # the flow decides what it means
            replies = [error]
    unread, by_index = iter(replies), dict[int, Any]()
    for index, step in steps:
        by_index[index] = [next(unread) for _ in step.requests] if isinstance(step, Batch) else next(unread)
    return by_index


def _requests_of(step: Any) -> Iterable[Request]:
    return step.requests if isinstance(step, Batch) else (step,)


def intercept(
    flow: Flow[T],
    on_request: Callable[[Request], Request],
    on_reply: Callable[[Sequence[Request], Sequence[Any]], Sequence[Any]] | None = None,
) -> Flow[T]:
    """The same flow; ``on_request`` may change each of its requests, and ``on_reply`` the replies to some requests, values and
    errors, before the flow gets them."""
    reply: Any = None
    while True:
        try:
            step = _advance(flow, reply)
        except StopIteration as end:
            result: T = end.value
            return result
        requests = list(map(on_request, _requests_of(step)))
        batched = isinstance(step, Batch)
        try:
            reply = yield Batch(requests) if batched else requests[0]
        except Exception as error:  # noqa: BLE001  # the flow decides what it means
            reply = error
            if batched:
                continue
        if on_reply is not None:
            reply = list(on_reply(requests, reply)) if batched else on_reply(requests, [reply])[0]
