"""What a Cluster costs its client, and what partitions do with its masters.

tarry       a Cluster of three masters on this machine, over TCP
yardstick   the same on one server, over TCP

One by one and 64 tasks at once, in a topic of one place: the client's processor time a job. Then 64 tasks adding batches to
a topic with twelve partitions, against the same topic on the single server: processor time a job of client and servers, for
there are fewer cores here than servers.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import tarry
from bench.harness import BODY, Bench
from bench.reading import Reach, Reading, Result, Turn
from tarry.links.embedded import wire
from tarry.links.embedded.launch import Running, launch
from tarry.links.embedded.share import DURABLE

MASTERS, SLOTS, TASKS, PARTITIONS, BATCH = 3, 16384, 64, 12, 200


def cluster(bench: Bench) -> list[Result]:
    with _servers(1, ()) as single, _servers(MASTERS, ("--cluster-enabled", "yes")) as masters:
        _form(masters)
        sides = [_Side(bench, single, "redis://"), _Side(bench, masters, "redis+cluster://")]
        one, some = bench.size(1_500, 500, 20), bench.size(100, 50, 2)
        return [
            *_lines(bench, "blocking add, one by one", sides, lambda side: side.one_by_one(one)),
            *_lines(bench, f"{TASKS} asyncio tasks adding", sides, lambda side: side.at_once(some)),
            *_lines(bench, f"batches into {PARTITIONS} partitions", sides, lambda side: side.in_batches(some)),
        ]


def _lines(bench: Bench, what: str, sides: Sequence[_Side], act: Callable[[_Side], Turn]) -> list[Result]:
    theirs, ours = bench.turns(*[lambda side=side: act(side) for side in sides], times=bench.size(3, 2, 1))

    def micro(turns: list[Turn], whose: str) -> Reading:
        return Reading(tuple(getattr(turn, whose) / turn.jobs * 1e6 for turn in turns))

    return [
        Result(
            "cluster",
            f"client µs a job on a Cluster, {what}",
            "µs",
            micro(ours, "client_cpu_s"),
            Reach("≤", 1.3, "ratio"),
            micro(theirs, "client_cpu_s"),
            {
                "servers µs": statistics.median(micro(ours, "server_cpu_s").values),
                "single server µs": statistics.median(micro(theirs, "server_cpu_s").values),
                "jobs/s": statistics.median(turn.per_second for turn in ours),
                "single jobs/s": statistics.median(turn.per_second for turn in theirs),
            },
        )
    ]


class _Side:
    """A single server, or the masters of a Cluster."""

    def __init__(self, bench: Bench, servers: list[Running], scheme: str) -> None:
        self._bench = bench
        self._servers = servers
        self.url = scheme + ",".join(f"127.0.0.1:{_port(one)}" for one in servers)

    def _turn(self, jobs: int, act: Callable[[], Any]) -> Turn:
        before = sum(map(_cpu, self._servers))
        with self._bench.turn(jobs) as taken:
            act()
        spent = sum(map(_cpu, self._servers)) - before
        turn = taken()
        for server in self._servers:
            server.ask("FLUSHALL", "SYNC")
        return Turn(jobs, turn.wall_s, turn.client_cpu_s, spent)

    def one_by_one(self, count: int) -> Turn:
        with tarry.Client(self.url) as client:
            topic = client.topic("orders")
            topic.add(BODY, delay=3600)
            return self._turn(count, lambda: [topic.add(BODY, delay=3600) for _ in range(count)])

    def at_once(self, each: int) -> Turn:
        async def one(topic: Any) -> None:
            for _ in range(each):
                await topic.add(BODY, delay=3600)

        return self._together(TASKS * each, one, None)

    def in_batches(self, each: int) -> Turn:
        async def one(topic: Any) -> None:
            for _ in range(max(each // 20, 1)):
                await topic.add_many([BODY] * BATCH, delay=3600)

        return self._together(TASKS * max(each // 20, 1) * BATCH, one, PARTITIONS)

    def _together(self, jobs: int, one: Callable[[Any], Any], partitions: int | None) -> Turn:
        async def all_of_them(client: tarry.AsyncClient) -> None:
            topic = client.topic("orders", partitions=partitions)
            await asyncio.gather(*(one(topic) for _ in range(TASKS)))

        with asyncio.Runner() as runner:
            client = tarry.AsyncClient(self.url)
            runner.run(client.topic("orders", partitions=partitions).stats())
            turn = self._turn(jobs, lambda: runner.run(all_of_them(client)))
            runner.run(client.close())
            return turn


@contextmanager
def _servers(count: int, options: tuple[str, ...]) -> Iterator[list[Running]]:
    with ExitStack() as stack:
        started: list[Running] = []
        for port in _ports(count):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp")))
            started.append(launch(folder, port=port, options=(*DURABLE, *options)))
            stack.callback(started[-1].stop)
        yield started


def _ports(count: int) -> list[int]:
    """Free ones on the loopback, each with the Cluster's bus above it."""
    import socket

    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            listener, bus = (held.enter_context(socket.socket()) for _ in range(2))
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            if port + 10_000 < 65_536 and bus.connect_ex(("127.0.0.1", port + 10_000)):
                found.append(port)
        return found


def _form(masters: list[Running]) -> None:
    share = -(-SLOTS // len(masters))
    for number, node in enumerate(masters):
        last = min((number + 1) * share, SLOTS) - 1
        node.ask("CLUSTER", "ADDSLOTSRANGE", str(number * share), str(last))
        node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        node.ask("CLUSTER", "MEET", "127.0.0.1", str(_port(masters[0])))
    for node in masters:
        for _ in wire.pauses(20):
            about = node.ask("CLUSTER", "INFO")
            assert isinstance(about, bytes)
            if b"cluster_state:ok" in about and f"cluster_known_nodes:{len(masters)}".encode() in about:
                break


def _port(server: Running) -> int:
    assert not isinstance(server.address, str)
    return server.address[1]


def _cpu(server: Running) -> float:
    with wire.Line.to(server.address) as line:
        about = wire.info(line, "cpu")
    return float(about["used_cpu_user"]) + float(about["used_cpu_sys"])
