"""The service over HTTP, on one machine with its server and its load.

adds          one by one, 64 connections, 200-byte bodies
batch adds    1,000 jobs a request
pop, finish   one by one, 64 connections: a job is taken and finished
waiting       1,000 pops are open and nothing is due: the processor's share; then how long after a job was added somebody has it
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any

import msgspec

from bench import loading
from bench.harness import BODY, Bench
from bench.loading import Line, post
from bench.reading import Reach, Reading, Result

CONNECTIONS = 64
JOBS = "/v1/topics/orders/jobs"
MANY = "/v1/topics/orders/many/add"
ADD = msgspec.json.encode({"body": BODY, "delay": 3600})
BATCH = 1000


def service(bench: Bench) -> list[Result]:
    with loading.service(bench.url) as running:
        port, turns = running.port, range(bench.repeat)
        adds, by = [], "wrk"
        for _ in turns:
            bench.flush()
            found = (
                None if bench.effort == "tiny" else loading.by_wrk(port, CONNECTIONS, bench.size(5, 3, 1), JOBS, ADD)
            )
            if found is None:
                by, count = "own sockets", bench.size(40_000, 10_000, 100)
                found = count / asyncio.run(loading.by_sockets(port, CONNECTIONS, count, _one(post(JOBS, ADD))))
            adds.append(found)
        batch = msgspec.json.encode({"jobs": [{"body": BODY}] * BATCH, "delay": 3600})
        batches = []
        for _ in turns:
            bench.flush()
            count = bench.size(200, 60, 4)
            batches.append(count * BATCH / asyncio.run(loading.by_sockets(port, 4, count, _one(post(MANY, batch)))))
        pairs = [_pairs(bench, port) for _ in turns]
        share, late = asyncio.run(_waiting(bench, running))
    return [
        Result("service", "adds, one by one, 64 connections", "jobs/s", Reading(tuple(adds)), Reach("≥", 9000), details={"load": by}),
        Result("service", "adds, 1,000 a request", "jobs/s", Reading(tuple(batches)), Reach("≥", 60_000)),
        Result("service", "pop and finish, one by one", "jobs/s", Reading(tuple(pairs)), Reach("≥", 4000)),
        Result("service", "processor while 1,000 pops wait", "%", Reading((share,)), Reach("≤", 5)),
        Result(
            "service",
            "added until answered, p99",
            "ms",
            Reading((_percentile(late, 0.99),)),
            Reach("≤", 10),
            details={"p50 ms": statistics.median(late)},
        ),
    ]  # fmt: skip


def _one(request: bytes) -> Any:
    async def turn(line: Line) -> None:
        await line.ask(request)

    return turn


def _pairs(bench: Bench, port: int) -> float:
    bench.flush()
    count = bench.size(16_000, 4000, 100)
    batch = post(MANY, msgspec.json.encode({"jobs": [{"body": BODY}] * BATCH}))
    asyncio.run(loading.by_sockets(port, 1, -(-(count + CONNECTIONS) // BATCH), _one(batch)))
    pop = post("/v1/topics/orders/pop", b"{}")

    async def turn(line: Line) -> None:
        job = json.loads(await line.ask(pop))
        await line.ask(post(f"{JOBS}/{job['id']}/finish", b'{"receipt":%d}' % job["receipt"]))

    return count / asyncio.run(loading.by_sockets(port, CONNECTIONS, count, turn))


async def _waiting(bench: Bench, running: loading.Service) -> tuple[float, list[float]]:
    bench.flush()
    count, jobs = bench.size(1000, 1000, 20), bench.size(300, 100, 5)
    lines = [await Line.to(running.port) for _ in range(count)]
    answered: asyncio.Queue[float] = asyncio.Queue()
    wait = post("/v1/topics/orders/pop", b'{"wait":60}')

    async def consume(line: Line) -> None:
        while True:
            if await line.ask(wait):
                answered.put_nowait(time.perf_counter())

    tasks = [asyncio.create_task(consume(line)) for line in lines]
    await asyncio.sleep(bench.size(3, 3, 1))
    cpu, began = running.cpu_s, time.perf_counter()
    await asyncio.sleep(bench.size(20, 5, 1))
    share = 100 * (running.cpu_s - cpu) / (time.perf_counter() - began)
    adding, late = await Line.to(running.port), list[float]()
    add = post(JOBS, msgspec.json.encode({"body": BODY}))
    for _ in range(jobs):
        sent = time.perf_counter()
        await adding.ask(add)
        late.append(1000 * (await answered.get() - sent))
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for line in (*lines, adding):
        line.close()
    return share, late


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
