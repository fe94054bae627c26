"""The service over HTTP, on one machine with its server and its load.

adds          one by one, 64 connections, 200-byte bodies
batch adds    1,000 jobs a request
pop, finish   one by one, 64 connections: a job is popped and finished; the topic counts the pairs
…, of bare    the same load on a bare ASGI application that reads the body and does one bare EVALSHA a request, in turns
µs            processor time of service and server a job, which a busy machine distorts least
waiting       1,000 pops are open and nothing is due: the processor's load; then the time from an add to the pop's answer
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import msgspec
from redis import Redis

import tarry
from bench import load
from bench.harness import BODY, Bench
from bench.load import Connection, post
from bench.results import Reading, Result, Target, Turn, rates

CONNECTIONS = 64
TOPIC = "/v1/topics/orders"
JOBS, MANY = f"{TOPIC}/jobs", f"{TOPIC}/many/add"
ADD = msgspec.json.encode({"body": BODY, "delay": 3600})
BATCH = 1000


def service(bench: Bench) -> list[Result]:
    turns = range(bench.repeat)
    with load.service(bench.url) as running:
        adds = [_turn(bench, running, "added", _adds) for _ in turns]
        batches = [_turn(bench, running, "added", _batches) for _ in turns]
        pairs = [_turn(bench, running, "finished", _pairs) for _ in turns]
        share, late = asyncio.run(_waiting(bench, running))
        with load.bare_service(bench.url) as bare:
            against_bare = [_against_bare(bench, running, bare, what, work) for what, work in _ONE_BY_ONE.items()]
    return [
        _rate("adds, one by one, 64 connections", adds, 9000, load="wrk" if _by_wrk(bench) else "own sockets"),
        _rate("adds, 1,000 a request", batches, 60_000),
        _rate("pop and finish, one by one", pairs, 4000),
        Result("service", "processor while 1,000 pops wait", "%", Reading((share,)), Target("≤", 5)),
        Result(
            "service",
            "added until answered, p99",
            "ms",
            Reading((_percentile(late, 0.99),)),
            Target("≤", 10),
            details={"p50 ms": statistics.median(late)},
        ),
        *against_bare,
    ]


def _against_bare(bench: Bench, running: load.Service, bare: load.Service, what: str, work: Load) -> Result:
    """The service beside the bare application, in turns."""
    counter, requests = ("finished", 2) if work is _pairs else ("added", 1)
    ours, theirs = bench.turns(
        lambda: _turn(bench, running, counter, work),
        lambda: _bare_turn(bench, bare, work, requests),
        times=bench.size(3, 2, 1),
    )
    used = {
        f"{side} µs": statistics.median(turn.client_cpu_s / turn.jobs * 1e6 for turn in turns)
        for side, turns in (("service", ours), ("bare", theirs))
    }
    return Result("service", what, "jobs/s", rates(ours), Target("≥", 0.6, "ratio"), rates(theirs), used)


def _bare_turn(bench: Bench, bare: load.Service, work: Load, requests: int) -> Turn:
    """Runs a load on the bare application, which adds a job a request."""
    cpu, server_cpu, began = bare.cpu_s, bench.server_cpu(), time.perf_counter()
    work(bench, bare.port)
    wall, cpu, server_cpu = time.perf_counter() - began, bare.cpu_s - cpu, bench.server_cpu() - server_cpu
    with Redis(unix_socket_path=bench.socket) as redis:
        return Turn(int(redis.hlen("bare:jobs")) // requests, wall, cpu, server_cpu)  # type: ignore[arg-type]  # it is blocking


def _rate(what: str, turns: list[Turn], least: float, **details: str) -> Result:
    costs = {
        "service µs": statistics.median(turn.client_cpu_s / turn.jobs * 1e6 for turn in turns),
        "server µs": statistics.median(turn.server_cpu_s / turn.jobs * 1e6 for turn in turns),
    }
    return Result("service", what, "jobs/s", rates(turns), Target("≥", least), details=costs | details)


Load = Callable[[Bench, int], None]


def _turn(bench: Bench, running: load.Service, counter: str, load: Load) -> Turn:
    """Runs a load, and measures the processor time of the service and of the server. The topic counts the jobs."""
    bench.flush()
    if load is _pairs:
        _fill(bench, running.port)
    service_cpu, server_cpu, began = running.cpu_s, bench.server_cpu(), time.perf_counter()
    load(bench, running.port)
    wall, service_cpu = time.perf_counter() - began, running.cpu_s - service_cpu
    server_cpu = bench.server_cpu() - server_cpu
    with tarry.Client(bench.url) as client:
        return Turn(getattr(client.topic("orders").stats(), counter), wall, service_cpu, server_cpu)


def _by_wrk(bench: Bench) -> bool:
    return bench.effort != "tiny" and load.has_wrk()


def _adds(bench: Bench, port: int) -> None:
    if _by_wrk(bench):
        load.by_wrk(port, CONNECTIONS, bench.size(5, 3, 1), "same.lua", JOBS, ADD.decode())
    else:
        asyncio.run(load.by_sockets(port, CONNECTIONS, bench.size(40_000, 10_000, 100), _one(post(JOBS, ADD))))


def _batches(bench: Bench, port: int) -> None:
    batch = msgspec.json.encode({"jobs": [{"body": BODY}] * BATCH, "delay": 3600})
    asyncio.run(load.by_sockets(port, 4, bench.size(200, 60, 4), _one(post(MANY, batch))))


def _fill(bench: Bench, port: int) -> None:
    """Adds more jobs than can be popped in the time."""
    batch = post(MANY, msgspec.json.encode({"jobs": [{"body": BODY}] * BATCH}))
    asyncio.run(load.by_sockets(port, 1, bench.size(100, 60, 1), _one(batch)))


def _pairs(bench: Bench, port: int) -> None:
    if _by_wrk(bench):
        load.by_wrk(port, CONNECTIONS, bench.size(5, 3, 1), "pairs.lua", TOPIC)
        return
    pop = post(f"{TOPIC}/pop", b"{}")

    async def turn(connection: Connection) -> None:
        job = json.loads(await connection.ask(pop))
        await connection.ask(post(f"{JOBS}/{job['id']}/finish", b'{"receipt":%d}' % job["receipt"]))

    asyncio.run(load.by_sockets(port, CONNECTIONS, bench.size(16_000, 4000, 100), turn))


def _one(request: bytes) -> Any:
    async def turn(connection: Connection) -> None:
        await connection.ask(request)

    return turn


async def _waiting(bench: Bench, running: load.Service) -> tuple[float, list[float]]:
    bench.flush()
    count, jobs = bench.size(1000, 1000, 20), bench.size(300, 100, 5)
    connections = [await Connection.to(running.port) for _ in range(count)]
    answered: asyncio.Queue[float] = asyncio.Queue()
    wait = post(f"{TOPIC}/pop", b'{"wait":60}')

    async def consume(connection: Connection) -> None:
        while True:
            if await connection.ask(wait):
                answered.put_nowait(time.perf_counter())

    tasks = [asyncio.create_task(consume(connection)) for connection in connections]
    await asyncio.sleep(bench.size(3, 3, 1))
    cpu, began = running.cpu_s, time.perf_counter()
    await asyncio.sleep(bench.size(20, 5, 1))
    share = 100 * (running.cpu_s - cpu) / (time.perf_counter() - began)
    adding, late = await Connection.to(running.port), list[float]()
    add = post(JOBS, msgspec.json.encode({"body": BODY}))
    for _ in range(jobs):
        sent = time.perf_counter()
        await adding.ask(add)
        late.append(1000 * (await answered.get() - sent))
        await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for connection in (*connections, adding):
        connection.close()
    return share, late


def _percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


_ONE_BY_ONE: dict[str, Load] = {"adds, one by one, of bare": _adds, "pop and finish, one by one, of bare": _pairs}
