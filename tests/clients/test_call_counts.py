"""How many functions an add, a pop and a finish call: the same on every machine, however busy it is.

A number may fall. If one has to rise by more than 5 %, record the new one here, and say why in the commit.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tarry

SOURCE = str(Path(tarry.__file__).parent)
ROUNDS = 30
RECORDED = {
    "blocking": {"add": 76, "pop": 94, "finish": 86},
    "awaited": {"add": 93, "pop": 116, "finish": 107},
}
"""Calls of tarry's own functions, and of built-in ones by them. What redis-py and asyncio do between is theirs."""


class CallCounter:
    """Counts while it is the profile function of this thread."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ARG002  # as Python calls it
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(SOURCE):
            self.calls += 1

    def count(self, operation: Callable[[], Any]) -> int:
        before = self.calls
        sys.setprofile(self)
        try:
            operation()
        finally:
            sys.setprofile(None)
        return self.calls - before


def fewest(counted: list[dict[str, int]]) -> dict[str, int]:
    """Of each verb the fewest: the first ones connect, and load scripts."""
    return {verb: min(one[verb] for one in counted) for verb in counted[0]}


def check(client: str, counted: list[dict[str, int]]) -> None:
    found = fewest(counted)
    risen = {verb: calls for verb, calls in found.items() if calls > RECORDED[client][verb] * 1.05}
    assert not risen, f"more calls than recorded: {found} instead of {RECORDED[client]}"


def test_a_blocking_client_makes_no_more_calls_than_recorded(valkey_url: str) -> None:
    def one_round() -> dict[str, int]:
        counter = CallCounter()
        add = counter.count(lambda: topic.add({"order": 7}))
        popped: list[Any] = []
        pop = counter.count(lambda: popped.append(topic.pop()))
        return {"add": add, "pop": pop, "finish": counter.count(lambda: topic.finish(popped[0]))}

    with tarry.Client(valkey_url, namespace="call-counts") as client:
        topic = client.topic("orders")
        check("blocking", [one_round() for _ in range(ROUNDS)])


def test_an_awaited_client_makes_no_more_calls_than_recorded(valkey_url: str) -> None:
    async def one_round(topic: Any) -> dict[str, int]:
        async def count(operation: Any) -> tuple[Any, int]:
            counter = CallCounter()
            sys.setprofile(counter)
            try:
                result = await operation
            finally:
                sys.setprofile(None)
            return result, counter.calls

        _, add = await count(topic.add({"order": 7}))
        job, pop = await count(topic.pop())
        _, finish = await count(topic.finish(job))
        return {"add": add, "pop": pop, "finish": finish}

    async def rounds() -> list[dict[str, int]]:
        async with tarry.AsyncClient(valkey_url, namespace="call-counts") as client:
            topic = client.topic("orders")
            return [await one_round(topic) for _ in range(ROUNDS)]

    check("awaited", asyncio.run(rounds()))
