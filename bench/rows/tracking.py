"""The cost of waiting by CLIENT TRACKING instead of a blocked connection: on a Cluster, from a process's 17th slot on.

tarry       a pop that waits in a slot by tracking: 16 others of the process use the blocked connections
yardstick   a pop that waits in a slot by a blocked connection

A Cluster of three masters on this machine. Measured from before the add until the pop returned, in one process that does
both, and the same with twenty clients that all track the topic: they share a connection to each node, and one gets the
job. The last line is one pop that waits in 64 slots and in 3, for the processor time of a wait without a job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import tarry
from bench import clusters
from bench.harness import Bench
from bench.results import Reading, Result, Target
from tarry.connections import connection_limit
from tarry.connections.embedded.server_process import ServerProcess

CROWD, WIDE, FEW = 20, 64, 3


def tracking(bench: Bench) -> list[Result]:
    times, vain = bench.size(100, 50, 5), bench.size(5, 3, 1)
    heard, held, crowd, crowd_held = Side(), Side(), Side(), Side()
    wide: list[float] = []
    few: list[float] = []
    with clusters.cluster(3) as nodes:
        url = "redis+cluster://" + ",".join(f"127.0.0.1:{clusters.port_of(node)}" for node in nodes)
        for _ in range(bench.size(4, 3, 1)):  # in turns: a busy machine affects all alike
            with full():
                asyncio.run(called(heard, url, nodes, 1, times))
                asyncio.run(called(crowd, url, nodes, CROWD, times))
                wide += asyncio.run(in_vain(url, WIDE, vain))
            asyncio.run(called(held, url, nodes, 1, times))
            asyncio.run(called(crowd_held, url, nodes, connection_limit.MOST_BLOCKED, times))
            few += asyncio.run(in_vain(url, FEW, vain))
    return [
        Result(
            "hearing",
            "from the add to the job in hand, in a slot that is tracked",
            "ms",
            heard.reading,
            Target("≤", 2, "ratio"),
            held.reading,
            {"servers µs": heard.servers_us, "servers µs, blocked": held.servers_us},
        ),
        Result(
            "hearing",
            f"the same with {CROWD} tracking clients",
            "ms",
            crowd.reading,
            Target("≤", 2, "ratio"),
            crowd_held.reading,
            {
                "servers µs": crowd.servers_us,
                f"servers µs, {connection_limit.MOST_BLOCKED} blocked": crowd_held.servers_us,
            },
        ),
        Result(
            "hearing",
            f"client's processor time of a wait in vain, a slot of {WIDE}",
            "ms",
            Reading(tuple(wide)),
            Target("≤", 1, "ratio"),
            Reading(tuple(few)),
        ),
    ]


@dataclass
class Side:
    """Milliseconds from each add to the return of the pop; seconds of the servers' processor time."""

    found: list[float] = field(default_factory=list)
    servers_s: float = 0.0

    @property
    def reading(self) -> Reading:
        return Reading(tuple(self.found))

    @property
    def servers_us(self) -> float:
        return self.servers_s / len(self.found) * 1e6


@contextmanager
def full() -> Iterator[None]:
    """Takes all blocked connections that a process may have."""
    taken = [connection_limit.BLOCKED_LIMIT.acquire() for _ in range(connection_limit.MOST_BLOCKED)]
    try:
        yield
    finally:
        for permit in taken:
            if permit is not None:
                permit.release()


async def called(side: Side, url: str, nodes: list[ServerProcess], crowd: int, times: int) -> None:
    added = 0.0
    handed = asyncio.Event()

    async def wait(client: tarry.AsyncClient) -> None:
        while True:
            job = await client.topic("orders").pop(wait=None)
            if job is not None:
                side.found.append((time.perf_counter() - added) * 1e3)
                await client.topic("orders").finish(job)
                handed.set()

    with ExitStack() as stack:
        other = stack.enter_context(tarry.Client(url))
        clients = [tarry.AsyncClient(url) for _ in range(crowd)]
        tasks = [asyncio.ensure_future(wait(client)) for client in clients]
        await asyncio.sleep(1)
        before = sum(map(clusters.cpu_s, nodes))
        for _ in range(times):
            handed.clear()
            added = time.perf_counter()
            await asyncio.to_thread(other.topic("orders").add, 1)
            await handed.wait()
            await asyncio.sleep(0.005)
        side.servers_s += sum(map(clusters.cpu_s, nodes)) - before
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for client in clients:
            await client.close()


async def in_vain(url: str, slots: int, times: int) -> tuple[float, ...]:
    """Milliseconds of this process's processor time for each slot."""
    names = [f"none-{n}" for n in range(slots)]
    found: list[float] = []
    async with tarry.AsyncClient(url) as client:
        for name in names:
            await client.topic(name).stats()
        for _ in range(times):
            before = time.process_time()
            await client.pop(*names, wait=0.3)
            found.append((time.process_time() - before) * 1e3 / slots)
    return tuple(found)
