"""The cost of a Cluster for its client, and the throughput of a topic with partitions over its masters.

tarry       a Cluster of three masters on this machine, over TCP
yardstick   the same on one server, over TCP; for the last line, a Cluster of one master

One by one, in many short turns, and 64 tasks at once, in a plain topic; then 64 tasks adding batches to a topic with twelve partitions: the
client's processor time a job. The last line is a job's whole life in batches (added, popped, finished), in twelve partitions:
the processor time of the busiest master, which is the limit where there are enough cores (here there are fewer cores than
servers); beside it, the same in a plain topic on the single server.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tarry
from bench import clusters
from bench.harness import BODY, Bench
from bench.results import Reading, Result, Target, Turn
from tarry.connections.embedded.server_process import ServerProcess

MASTERS, TASKS, PARTITIONS, BATCH = 3, 64, 12, 200
LIFE = f"lives in batches, {PARTITIONS} partitions"


def cluster(bench: Bench) -> list[Result]:
    with clusters.servers(1) as one, clusters.cluster(1) as only, clusters.cluster(MASTERS) as three:
        single, alone, many = (
            _Side(bench, it, scheme) for it, scheme in ((one, ""), (only, "+cluster"), (three, "+cluster"))
        )
        by_one, by_task = bench.size(150, 100, 20), bench.size(100, 50, 2)
        sides, times = [single, many], bench.size(12, 10, 1)
        return [
            _cost(bench, "blocking add, one by one", sides, lambda side: side.one_by_one(by_one), times),
            _cost(bench, f"{TASKS} asyncio tasks adding", sides, lambda side: side.at_once(by_task)),
            _cost(bench, f"batches into {PARTITIONS} partitions", sides, lambda side: side.in_batches(by_task)),
            _spread(bench, single, alone, many),
        ]


def _cost(bench: Bench, what: str, sides: Sequence[_Side], act: Callable[[_Side], Spent], times: int = 0) -> Result:
    theirs, ours = _turns(bench, [lambda side=side: act(side) for side in sides], times)
    return Result(
        "cluster",
        f"client µs a job on a Cluster, {what}",
        "µs",
        _micro(ours, "client_cpu_s"),
        Target("≤", 1.3, "ratio"),
        _micro(theirs, "client_cpu_s"),
        {
            "servers µs": _micro(ours, "server_cpu_s").median,
            "single server µs": _micro(theirs, "server_cpu_s").median,
            "jobs/s": statistics.median(turn.per_second for turn in ours),
            "single jobs/s": statistics.median(turn.per_second for turn in theirs),
        },
    )


def _spread(bench: Bench, single: _Side, alone: _Side, many: _Side) -> Result:
    rounds = bench.size(2, 1, 1)
    plain, one, three = _turns(
        bench,
        [lambda: single.lives(rounds, None), *[lambda it=it: it.lives(rounds, PARTITIONS) for it in (alone, many)]],
    )
    details: dict[str, float | str] = {}
    for name, turns in (("plain topic", plain), ("1 master", one), (f"{MASTERS} masters", three)):
        details[f"{name} client µs"] = _micro(turns, "client_cpu_s").median
        details[f"{name} servers µs"] = _micro(turns, "server_cpu_s").median
        details[f"{name} jobs/s"] = statistics.median(turn.per_second for turn in turns)
    what = f"busiest of {MASTERS} masters, µs a job, {LIFE}"
    return Result(
        "cluster", what, "µs", _micro(three, "busiest_s"), Target("≤", 0.5, "ratio"), _micro(one, "busiest_s"), details
    )


@dataclass(frozen=True, slots=True)
class Spent(Turn):
    """A turn over several servers: ``server_cpu_s`` is all of them."""

    busiest_s: float


def _turns(bench: Bench, sides: Sequence[Callable[[], Spent]], times: int = 0) -> list[list[Spent]]:
    taken: Any = bench.turns(*sides, times=times or bench.size(3, 2, 1))
    return list(taken)


def _micro(turns: list[Spent], whose: str) -> Reading:
    return Reading(tuple(getattr(turn, whose) / turn.jobs * 1e6 for turn in turns))


class _Side:
    """A single server, or the masters of a Cluster."""

    def __init__(self, bench: Bench, servers: list[ServerProcess], kind: str) -> None:
        self._bench = bench
        self._servers = servers
        self.url = f"redis{kind}://" + ",".join(f"127.0.0.1:{clusters.port_of(one)}" for one in servers)

    def _turn(self, jobs: int, act: Callable[[], Any]) -> Spent:
        before = [clusters.cpu_s(one) for one in self._servers]
        with self._bench.turn(jobs) as taken:
            act()
        spent = [clusters.cpu_s(one) - at for one, at in zip(self._servers, before, strict=True)]
        turn = taken()
        for server in self._servers:
            server.ask("FLUSHALL", "SYNC")
        return Spent(jobs, turn.wall_s, turn.client_cpu_s, sum(spent), max(spent))

    def one_by_one(self, count: int) -> Spent:
        with tarry.Client(self.url) as client:
            topic = client.topic("orders")
            topic.add(BODY, delay=3600)
            return self._turn(count, lambda: [topic.add(BODY, delay=3600) for _ in range(count)])

    def at_once(self, each: int) -> Spent:
        async def one(topic: Any) -> None:
            for _ in range(each):
                await topic.add(BODY, delay=3600)

        return self._together(TASKS * each, one, None)

    def in_batches(self, each: int) -> Spent:
        rounds = max(each // 20, 1)

        async def one(topic: Any) -> None:
            for _ in range(rounds):
                await topic.add_many([BODY] * BATCH, delay=3600)

        return self._together(TASKS * rounds * BATCH, one, PARTITIONS)

    def lives(self, rounds: int, partitions: int | None) -> Spent:
        async def one(topic: Any) -> None:
            for _ in range(rounds):
                await topic.add_many([BODY] * BATCH)
                left = BATCH
                while left:  # a partition's jobs may be popped by the others
                    if jobs := await topic.pop_many(left):
                        await topic.finish_many(jobs)
                        left -= len(jobs)

        return self._together(TASKS * rounds * BATCH, one, partitions)

    def _together(self, jobs: int, one: Callable[[Any], Any], partitions: int | None) -> Spent:
        async def all_of_them(client: tarry.AsyncClient) -> None:
            topic = client.topic("orders", partitions=partitions)
            await asyncio.gather(*(one(topic) for _ in range(TASKS)))

        with asyncio.Runner() as runner:
            client = tarry.AsyncClient(self.url)
            runner.run(client.topic("orders", partitions=partitions).stats())
            turn = self._turn(jobs, lambda: runner.run(all_of_them(client)))
            runner.run(client.close())
            return turn
