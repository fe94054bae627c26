# Made from src/tarry/clients/awaited/flow_runner.py by tools/blocking.py: change that file, then `make blocking`.
"""Runs the generators of this package, blocking: flows of requests, the steps of a lock, a move between two servers."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")


def run_flow(
    flow: Generator[S, Any, T],
    perform: Callable[[S], Any],
    faults: type[BaseException] | tuple[()] = Exception,
) -> T:
    """Performs each step, and returns the result of the flow. Errors of a step that are ``faults`` are raised inside the flow."""
    try:
        step = next(flow)
        while True:
            try:
                answer = perform(step)
            except faults as fault:
                step = flow.throw(fault)
            else:
                step = flow.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
