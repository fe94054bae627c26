"""Flows beside flows: what several ask next leaves together; and a flow whose requests are told something on their way.

flows       a1 a2 a3 ┐        b1 b2 ┐        c1 c2 c3
Together    [a1 b1 c1]        [a2 b2 c2]     [a3 c3]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tarry.core.requests import Batch, Flow, Request

T = TypeVar("T")


def gather(flows: Iterable[Flow[T]]) -> Flow[list[T]]:
    """Performs flows in step, and answers what each came to. Where one fails, the others are asked nothing more once the
    answers of that step are in, and the error of the first one is raised."""
    some = list(flows)
    answers: list[Any] = [None] * len(some)
    given: dict[int, Any] = dict.fromkeys(range(len(some)))
    try:
        while given:
            asked: list[tuple[int, Any]] = []
            faults: list[Exception] = []
            for at, answer in given.items():
                try:
                    asked.append((at, _advance(some[at], answer)))
                except StopIteration as end:
                    answers[at] = end.value
                except Exception as fault:  # noqa: BLE001  # told below, when the others have their answers
                    faults.append(fault)
            if faults:
                raise faults[0]
            given = (yield from _perform_steps(asked)) if asked else {}
    finally:
        for flow in some:
            flow.close()
    return answers


def _advance(flow: Flow[Any], answer: Any) -> Any:
    return flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)


def _perform_steps(asked: list[tuple[int, Any]]) -> Flow[dict[int, Any]]:
    """What some flows ask, which may be several requests of one, and what each is answered."""
    requests = [one for _, step in asked for one in _requests_of(step)]
    found: list[Any]
    if len(requests) != 1:
        found = yield Batch(requests)
    else:
        try:
            found = [(yield requests[0])]
        except Exception as fault:  # noqa: BLE001  # the flow decides what it means
            found = [fault]
    answers, given = iter(found), dict[int, Any]()
    for at, step in asked:
        given[at] = [next(answers) for _ in step.requests] if isinstance(step, Batch) else next(answers)
    return given


def _requests_of(step: Any) -> Iterable[Request]:
    return step.requests if isinstance(step, Batch) else (step,)


def intercept(
    flow: Flow[T],
    on_request: Callable[[Request], Request],
    on_reply: Callable[[Sequence[Request], Sequence[Any]], Sequence[Any]] | None = None,
) -> Flow[T]:
    """The same flow, each of its requests as ``tell`` makes it; ``hear`` says what it hears for what was answered to some
    requests, values and errors."""
    answer: Any = None
    while True:
        try:
            step = _advance(flow, answer)
        except StopIteration as end:
            result: T = end.value
            return result
        asked = list(map(on_request, _requests_of(step)))
        several = isinstance(step, Batch)
        try:
            answer = yield Batch(asked) if several else asked[0]
        except Exception as fault:  # noqa: BLE001  # the flow decides what it means
            answer = fault
            if several:
                continue
        if on_reply is not None:
            answer = list(on_reply(asked, answer)) if several else on_reply(asked, [answer])[0]
