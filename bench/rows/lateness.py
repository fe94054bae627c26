"""50 jobs a second with random delays of 200 to 1,500 ms; 1, 5 and 50 consumers wait for them, each with its own client.

lateness   as tarry measures it: handed out by the server − due. In the details also "in hand": until ``pop`` returned
calls      how often the script of ``pop`` was called for each job; counted in the clients, in the method that sends every
           request

yardstick  in the same loop at the same time, as many bare consumers, who know all moments from the start: ``asyncio.sleep`` until
           the next one, a PING by redis-py for the pop, the same work, a PING for the finish; from the moment to the first
           PING's answer. Their moments are those of the jobs, half an interval later

All clients and the producer run in one process and one event loop: the figures include its delays, and the machine's. What
falls due while every consumer works waits until one is free, so the yardstick works, too
(docs/decisions/0112-the-yardstick-of-lateness-works-too.md).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from redis.asyncio import Redis

import tarry
from bench.harness import BODY, Bench
from bench.results import Reading, Result, Target

RATE = 50
FEWEST_MS, MOST_MS = 200, 1500
WORK_S = 0.002
"""How long a handler takes, so that different consumers work and wait."""


@dataclass
class Seen:
    lateness_ms: list[float] = field(default_factory=list)
    bare_ms: list[float] = field(default_factory=list)
    in_hand_ms: list[float] = field(default_factory=list)
    scripts: Counter[str] = field(default_factory=Counter)
    another: asyncio.Event = field(default_factory=asyncio.Event)


def counting(client: tarry.AsyncClient, scripts: Counter[str]) -> tarry.AsyncClient:
    """Counts the scripts that a client calls."""
    runner: Any = client.engine.runner
    perform = runner.perform

    async def counted(request: Any) -> Any:
        scripts[getattr(getattr(request, "script", None), "name", "command")] += 1
        return await perform(request)

    runner.perform = counted
    return client


async def consume(client: tarry.AsyncClient, seen: Seen) -> None:
    topic = client.topic("orders")
    while True:
        job = await topic.pop(wait=None)
        assert job is not None
        seen.in_hand_ms.append((time.time() - job.due.timestamp()) * 1000)
        seen.lateness_ms.append(job.lateness.total_seconds() * 1000)
        seen.another.set()
        await asyncio.sleep(WORK_S)
        await topic.finish(job)


async def consume_bare(redis: Redis, moments: Iterator[float], seen: Seen) -> None:
    """The lower bound for a consumer here: a timer and two round trips."""
    for due in moments:
        await asyncio.sleep(due - time.time())
        await redis.ping()
        seen.bare_ms.append((time.time() - due) * 1000)
        seen.another.set()
        await asyncio.sleep(WORK_S)
        await redis.ping()


async def watch(url: str, consumers: int, seconds: float) -> Seen:
    seen, rng = Seen(), random.Random(7)
    clients = [counting(tarry.AsyncClient(url), seen.scripts) for _ in range(consumers)]
    async with tarry.AsyncClient(url) as producer, Redis.from_url(url) as redis:
        topic = producer.topic("orders")
        await asyncio.gather(*(redis.ping() for _ in clients))  # a connection for each
        tasks = [asyncio.create_task(consume(client, seen)) for client in clients]
        await asyncio.sleep(0.5)
        began = time.time()
        adds = [began + number / RATE for number in range(int(seconds * RATE))]
        dues = [add + rng.randrange(FEWEST_MS, MOST_MS) / 1000 for add in adds]
        bare = iter(sorted(due + 0.5 / RATE for due in dues))
        tasks += [asyncio.create_task(consume_bare(redis, bare, seen)) for _ in clients]
        for add, due in zip(adds, dues, strict=True):
            await asyncio.sleep(max(0, add - time.time()))
            await topic.add(BODY, at=datetime.fromtimestamp(due, timezone.utc))
        while min(len(seen.lateness_ms), len(seen.bare_ms)) < len(dues) and await _another(seen):
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in clients:
            await client.close()
    assert len(seen.lateness_ms) == len(dues), f"{len(dues)} added, {len(seen.lateness_ms)} seen"
    return seen


async def _another(seen: Seen) -> bool:
    """Waits for one more job or moment; returns false when none comes."""
    seen.another.clear()
    try:
        await asyncio.wait_for(seen.another.wait(), MOST_MS / 1000 + 10)
    except TimeoutError:
        return False
    return True


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def lateness(bench: Bench) -> list[Result]:
    seconds = bench.size(8, 4, 1)
    rounds = (bench.repeat + 1) // 2 if bench.effort == "full" else 1
    taken: dict[int, list[Seen]] = {50: [], 5: [], 1: []}
    for _ in range(rounds):
        for consumers, record in taken.items():
            bench.flush()
            record.append(asyncio.run(watch(bench.url, consumers, seconds)))
    lines = []
    for consumers, record in taken.items():
        late = [value for seen in record for value in seen.lateness_ms]
        held = [value for seen in record for value in seen.in_hand_ms]
        bare = [value for seen in record for value in seen.bare_ms]
        scripts = sum((seen.scripts for seen in record), Counter[str]())
        word = "consumer" if consumers == 1 else "consumers"
        lines.append(
            Result(
                "lateness",
                f"p99 of lateness, {consumers} {word}, {RATE} jobs/s",
                "ms",
                Reading(tuple(_percentile(seen.lateness_ms, 0.99) for seen in record)),
                Target("≤", 3) if consumers == 50 else Target("≤", 1.5, "ratio"),
                Reading(tuple(_percentile(seen.bare_ms, 0.99) for seen in record)),
                {
                    "p50": _percentile(late, 0.5),
                    "max": max(late),
                    "bare p50": _percentile(bare, 0.5),
                    "bare max": max(bare),
                    "in hand p50": _percentile(held, 0.5),
                    "in hand p99": _percentile(held, 0.99),
                },
            )
        )
        lines.append(
            Result(
                "lateness",
                f"pop calls a job, {consumers} {word}",
                "calls",
                Reading(tuple(seen.scripts["topic/pop"] / len(seen.lateness_ms) for seen in record)),
                Target("≤", 5),
                details={name: n / len(late) for name, n in scripts.items() if name != "topic/pop"},
            )
        )
    return lines
