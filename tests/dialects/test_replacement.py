"""One id put into several topics at the same time: one job is left, in every order of the steps."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import httpx
import pytest

import tarry
from service.running_service import serve
from tarry.clients.awaited.topic import AsyncTopic
from tarry.programs.dialects import replacement
from tarry.programs.dialects.mounts import Dialects
from tarry.programs.service.settings import ServiceSettings
from tarry.verbs import namespaces
from tarry.wire.bodies import PassThroughCodec
from until import LONGEST_S

ID = "7"
NAMES = "north", "south", "west"
PUSHED = 25
"""Ids that two services put into two topics each, at the same time."""


class Steps:
    """Lets the requests of all workers go one at a time, in an order that a seed chooses."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.waiting: list[asyncio.Future[None]] = []
        self.gone = asyncio.Event()

    async def run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        await turn
        try:
            return await work()
        finally:
            self.gone.set()

    async def go(self, tasks: list[asyncio.Task[Any]], *, die: bool) -> None:
        """Until all are done; with ``die`` one of them stops after so many steps of all."""
        victim, end = self.chance.choice(tasks), self.chance.randrange(5 * len(tasks)) if die else -1
        for step in count():
            if step == end:
                victim.cancel()
            for _ in range(20):
                await asyncio.sleep(0)  # until all wait for their turn
            self.waiting = [turn for turn in self.waiting if not turn.done()]
            if not self.waiting:
                break
            self.gone.clear()
            self.waiting.pop(self.chance.randrange(len(self.waiting))).set_result(None)
            await self.gone.wait()
        assert all(task.done() for task in tasks)


class Stepping:
    """A client's engine, step by step; and what a handler is given, as far as putting asks."""

    def __init__(self, client: tarry.AsyncClient, steps: Steps) -> None:
        self.real, self.steps, self.client = client, steps, self

    async def run(self, operation: Any) -> Any:
        return await self.steps.run(lambda: self.real.engine.run(operation))

    async def topics(self) -> list[str]:
        found: list[str] = await self.steps.run(self.real.topics)
        return found

    async def register_topic(self, topic: str) -> None:
        request = namespaces.register_topic(self.real.namespace, topic)
        await self.steps.run(lambda: self.real.engine.run(request))

    def topic_named(self, topic: str) -> AsyncTopic[Any]:
        passing: Any = PassThroughCodec(1000)
        engine: Any = self
        return AsyncTopic(engine, self.real.topic(topic, type=passing).verbs)


async def left(client: tarry.AsyncClient) -> list[str]:
    return [name for name in NAMES if await client.topic(name).get(ID)]


async def race(client: tarry.AsyncClient, seed: int, *, die: bool) -> None:
    """Some put the id into some topics, where it may be already; with ``die`` one of them stops in the middle."""
    steps = Steps(seed)
    x: Any = Stepping(client, steps)
    for name in NAMES:
        await client.topic(name).delete(ID)
    before = steps.chance.choice([None, *NAMES])
    if before is not None:
        await client.topic(before).add("before", id=ID, delay=60)
    chosen = [steps.chance.choice(NAMES) for _ in range(steps.chance.choice([2, 3, 4]))]
    tasks = [asyncio.ensure_future(replacement.replace_job(x, name, ID, name, headers={}, delay=60)) for name in chosen]
    await steps.go(tasks, die=die)
    await asyncio.gather(*tasks, return_exceptions=die)
    found = await left(client)
    assert len(found) >= 1 if die and (before or len(chosen) > 1) else len(found) == 1, (seed, before, chosen, found)
    if die:  # and whoever asks next puts it right
        again = asyncio.ensure_future(replacement.replace_job(x, "south", ID, "again", headers={}, delay=60))
        await steps.go([again], die=False)
        assert (await again).is_new
        assert await left(client) == ["south"], (seed, before, chosen)


def races(url: str, namespace: str, seeds: range, *, die: bool = False) -> None:
    async def work() -> None:
        async with tarry.AsyncClient(url, namespace=namespace) as client:
            for seed in seeds:
                await race(client, seed, die=die)

    asyncio.run(work())


FIRST_AND_MORE = [range(20), pytest.param(range(20, 150), marks=[pytest.mark.slow, pytest.mark.long])]


@pytest.mark.parametrize("seeds", FIRST_AND_MORE, ids=str)
def test_one_job_is_left_in_any_order_of_steps(valkey_url: str, namespace: str, seeds: range) -> None:
    races(valkey_url, namespace, seeds)


@pytest.mark.parametrize("seeds", FIRST_AND_MORE, ids=str)
def test_no_job_is_lost_when_one_process_dies(valkey_url: str, namespace: str, seeds: range) -> None:
    races(valkey_url, namespace, seeds, die=True)


@pytest.mark.otherserver
def test_one_job_is_left_in_a_cluster_too(cluster_nodes: list[tuple[str, int]], namespace: str) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    races(url, namespace, range(6))
    races(url, namespace, range(6), die=True)


@pytest.mark.slow
def test_two_services_push_the_same_ids_at_once(valkey_url: str, namespace: str) -> None:
    settings = ServiceSettings(namespaces=(namespace,))
    mounts = Dialects(f"{namespace}-a", f"{namespace}-b", None).mounts(namespace)

    def opened(name: str) -> tarry.AsyncClient:
        return tarry.AsyncClient(valkey_url, namespace=name)

    async def push(http: httpx.AsyncClient, url: str, topic: str, number: int) -> None:
        go = {"topic": topic, "id": f"{number}", "delay": 60, "ttr": 60, "body": topic}
        assert (await http.post(f"{url}/push", json=go)).json()["code"] == 0
        said = {"topic": topic, "id": number, "delayTime": 60_000}
        (await http.post(f"{url}/delay/add", params=said)).raise_for_status()

    async def work(urls: list[str]) -> None:
        async with httpx.AsyncClient(timeout=LONGEST_S) as http:
            for number in range(PUSHED):
                await asyncio.gather(*[push(http, url, name, number) for url in urls for name in NAMES[:2]])
        for where in ("a", "b"):
            async with tarry.AsyncClient(valkey_url, namespace=f"{namespace}-{where}") as client:
                kept = [
                    await client.topic(name).get_many([f"{number}" for number in range(PUSHED)]) for name in NAMES[:2]
                ]
            assert [sum(job is not None for job in jobs) for jobs in zip(*kept, strict=True)] == [1] * PUSHED, where

    with serve(opened, settings, mounts) as one, serve(opened, settings, mounts) as other:
        asyncio.run(work([one.url, other.url]))
