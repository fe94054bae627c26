"""Several slots are waited on at once, and two of them have a job at the same moment."""

from __future__ import annotations

import os
from typing import Any

import pytest

import tarry
from tarry.clients.awaited.race import race
from tarry.core.watch import Caller, WaitQueue
from tarry.errors import Unavailable
from tarry.values.keys import topic_keys
from tarry.verbs.jobs.pop import pop_now


class Served:
    """A slot's waiter whose pop has just brought a job."""

    def __init__(self, client: tarry.AsyncClient, topic: str) -> None:
        self.engine, self.keys = client.engine, topic_keys(client.namespace, topic)

    async def wait(self, *_: Any) -> Caller:
        caller = Caller(1, 0.0, lambda: None)
        answer = self.answer
        caller.result = (WaitQueue(self.keys, b"9000", b"", b"w"), answer, list(answer.jobs))
        return caller

    async def pop(self) -> Served:
        self.answer: Any = await self.engine.run(pop_now(self.keys, 1, ttr=b"9000000", holder=b""))
        assert len(self.answer.jobs) == 1
        return self


class Silent:
    async def wait(self, *_: Any) -> Caller:
        raise Unavailable("this node does not answer")


@pytest.mark.anyio
@pytest.mark.parametrize("others", [1, 2])
async def test_the_job_of_a_slot_that_came_second_is_given_back(valkey_url: str, others: int) -> None:
    async with tarry.AsyncClient(valkey_url, namespace=f"race-{os.getpid()}-{others}") as client:
        names = [f"t{n}" for n in range(1 + others)]
        for name in names:
            await client.topic(name).add(name, id="1")
        waiters = [await Served(client, name).pop() for name in names]
        caller = await race(client.engine.runner, [(one, []) for one in waiters], 1, 0.0)  # type: ignore[misc]
        assert caller.result is not None
        assert caller.result[0].keys == waiters[0].keys
        counts = [await client.topic(name).stats() for name in names]
        assert [(one.reserved, one.ready) for one in counts] == [(1, 0)] + others * [(0, 1)]
        again = await client.topic(names[-1]).pop(wait=0)
        assert again is not None
        assert again.attempt == 1


@pytest.mark.anyio
async def test_the_job_of_a_slot_is_given_back_if_another_node_fails_first(valkey_url: str) -> None:
    async with tarry.AsyncClient(valkey_url, namespace=f"race-{os.getpid()}-fails") as client:
        topic = client.topic("t")
        await topic.add(1)
        waiters: list[Any] = [Silent(), await Served(client, "t").pop()]
        with pytest.raises(Unavailable, match="does not answer"):
            await race(client.engine.runner, [(one, []) for one in waiters], 1, 0.0)
        assert (await topic.stats()).ready == 1
