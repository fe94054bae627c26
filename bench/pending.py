"""``python -m bench.pending``: a topic with ten million pending jobs, in one place and in partitions over masters.

    fill ──▶ measure ──▶ fill ──▶ measure ──▶ rewrite the append-only file ──▶ kill -9, start ──▶ pop
    1 M                  10 M

The same is measured at both sizes: the processor time of the servers for each kind of call, which grows where something depends on
the number of jobs. Needs 5 GB of memory and of disk for each ten million jobs, twice that while the file is rewritten.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import msgspec
import redis

import tarry
from bench import clusters, table
from bench.harness import BODY, private_server
from bench.rows.dashboard import _served
from tarry.connections.embedded import plain_client
from tarry.connections.embedded import server_process as process
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.fitness import parse_info
from tarry.programs.dashboard import Dashboard

BEGIN, END = "<!-- pending: tables -->", "<!-- pending: end -->"
BATCH, SPREAD_S, LOAD_S = 10_000, 30 * 86400, 1800
ONES, BATCHES, VIEWS, PAGES = 300, 10, 10, 5
FEW = 200_000
"""More are not checked: it takes in proportion."""


@dataclass
class Spent:
    """Of one kind of call: milliseconds of the servers' processors, and until its answer."""

    calls: int
    servers_ms: float
    wall_ms: float


@dataclass
class Readings:
    """The readings at one size."""

    pending: int
    calls: dict[str, Spent] = field(default_factory=dict)
    more: dict[str, float] = field(default_factory=dict)


class Site:
    """The servers, and a client of them."""

    def __init__(self, servers: Sequence[ServerProcess], url: str, partitions: int | None) -> None:
        self.servers = servers
        self.url = url
        self.partitions = partitions

    def info(self, section: str) -> Iterator[dict[str, str]]:
        for server in self.servers:
            with plain_client.RespConnection.connect(server.address, LOAD_S) as line:
                yield parse_info(line.call("INFO", section))

    def cpu_s(self) -> float:
        return sum(float(one["used_cpu_user"]) + float(one["used_cpu_sys"]) for one in self.info("cpu"))

    def sum_of(self, section: str, name: str) -> float:
        return sum(float(one[name]) for one in self.info(section))

    def most_of(self, section: str, name: str) -> float:
        return max(float(one[name]) for one in self.info(section))

    def ask(self, *words: str) -> list[Any]:
        return [server.ask(*words) for server in self.servers]


def measure(site: Site, what: str, times: int, call: Callable[[], object], found: Readings) -> None:
    cpu, began = site.cpu_s(), time.perf_counter()
    for _ in range(times):
        call()
    wall, cpu = time.perf_counter() - began, site.cpu_s() - cpu
    found.calls[what] = Spent(times, cpu * 1000 / times, wall * 1000 / times)
    say(f"  {what}: {found.calls[what]}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


FILL = """
math.randomseed(ARGV[1])
local first, last, now, pattern = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local record = redis.call('HGET', KEYS[1], ARGV[6])
while first <= last do
  local records, places = {}, {}
  for number = first, math.min(last, first + 499) do
    local id = string.format(pattern, math.floor(number / 1000000), number % 1000000)
    records[#records + 1] = id
    records[#records + 1] = record
    places[#places + 1] = string.format('%.0f', now + 3.6e9 + math.random() * 2.592e12)
    places[#places + 1] = id
  end
  redis.call('HSET', KEYS[1], unpack(records))
  redis.call('ZADD', KEYS[2], unpack(places))
  first = first + 500
end
"""
"""Copies a job under many ids, with due times of a month."""
PLAIN_ID, PARTITION_ID, PATTERN = "P7%08d--%08d", "%02d.%06dZ", "2026-01-01T00:00:"
"""As long as a default id; and like an occurrence of a schedule, whose name decides the partition."""


def fill(client: tarry.Client, topic: Any, site: Site, first: int, last: int) -> None:
    """Makes jobs in the servers: if a client added ten million, it would take an hour on a busy machine."""
    began = time.perf_counter()
    server: Any = (
        redis.RedisCluster.from_url(site.url.replace("+cluster", ""), socket_timeout=LOAD_S)
        if site.partitions
        else redis.Redis.from_url(site.url, socket_timeout=LOAD_S)
    )
    parts = client.engine.run(topic.verbs.partitions()) if site.partitions else [topic.verbs]
    for number, part in enumerate(parts):
        keys = part.context.keys
        name, pattern = "pattern", PLAIN_ID
        if site.partitions:
            name = next(str(word) for word in count() if crc32(str(word).encode()) % len(parts) == number)
            pattern = f"{name}@{PATTERN}{PARTITION_ID}"
            name = f"{name}@{PATTERN}59.000000Z"
        topic.add(BODY, delay=SPREAD_S, id=name, if_exists="keep")
        now = int(time.time() * 1e6)
        for at in range(first // len(parts), last // len(parts), BATCH):
            end = min(at + BATCH, last // len(parts)) - 1
            server.eval(FILL, 2, keys.jobs, keys.due, at, at, end, now, pattern, name)
    server.close()
    say(f"  filled from {first:,} to {last:,} in {time.perf_counter() - began:.0f} s")


def look(topic: Any, site: Site, pending: int) -> Readings:
    """What users do with a topic, at one size."""
    found = Readings(pending)
    do = partial(measure, site, found=found)
    far = datetime.now(timezone.utc) + timedelta(seconds=SPREAD_S / 2)
    ids = [topic.add(BODY, delay=SPREAD_S / 2).id for _ in range(2 * ONES)]
    due = partial(random.uniform, 3600, SPREAD_S)
    batch = [tarry.NewJob(BODY, delay=due()) for _ in range(1000)]
    do("`add_many` of 1,000", BATCHES, lambda: topic.add_many(batch))
    do("`add`", ONES, lambda: topic.add(BODY, delay=due()))
    topic.add_many([BODY] * (2 * ONES))
    jobs: list[Any] = []
    do("`pop`", ONES, lambda: jobs.append(topic.pop()))
    do("`finish`", ONES, lambda: topic.finish(jobs.pop()))
    while some := topic.pop_many(100):
        topic.finish_many(some)
    topic.add_many([BODY] * (100 * BATCHES))
    do("`pop_many` of 100", BATCHES, lambda: jobs.append(topic.pop_many(100)))
    do("`finish_many` of 100", BATCHES, lambda: topic.finish_many(jobs.pop()))
    do("`get`", VIEWS, lambda: topic.get(ids[0]))
    do("`reschedule`", ONES, lambda: topic.reschedule(ids[1], delay=due()))
    do("`delete`", ONES, lambda: topic.delete(ids.pop()))
    do("`stats`", VIEWS, topic.stats)
    do("`list`, the first 100", VIEWS, lambda: topic.list("delayed", limit=100))
    do("`list`, 100 from the middle", VIEWS, lambda: topic.list("delayed", due_after=far, limit=100))
    do("`histogram` of a day", VIEWS, lambda: topic.histogram(span="1d", buckets=24))
    do("`throughput`", VIEWS, topic.throughput)
    if pending <= FEW:
        do("`check`, the whole topic", 1, topic.check)
    asyncio.run(pages(site, do))
    site.ask("MEMORY", "PURGE")
    found.more["bytes of memory per job"] = site.sum_of("memory", "used_memory_dataset") / pending
    found.more["GB of memory in all, as the system sees it"] = site.sum_of("memory", "used_memory_rss") / 1e9
    return found


async def pages(site: Site, do: Callable[..., None]) -> None:
    """Pages of the dashboard, each time loaded from the servers."""
    async with tarry.AsyncClient(site.url) as client, _served(Dashboard(client)) as (board, place):

        def load(path: str) -> None:
            board.view_cache.invalidate()
            httpx.get(place + path, timeout=LOAD_S).raise_for_status()

        for name, path in {
            "overview": "/",
            "topic, by hour": "/topic?topic=orders&look=hour",
            "jobs": "/jobs?topic=orders",
        }.items():
            load_page = partial(load, path)
            await asyncio.to_thread(load_page)
            await asyncio.to_thread(do, f"dashboard: {name}", PAGES, load_page)


def rewrite(site: Site, found: dict[str, float]) -> None:
    """The append-only file is rewritten while nothing else happens."""
    for server in site.servers:
        began = time.perf_counter()
        server.ask("BGREWRITEAOF")
        while resp_info(server, "persistence")["aof_rewrite_in_progress"] == "1":
            time.sleep(0.2)
        say(f"  rewritten in {time.perf_counter() - began:.0f} s")
    about = list(site.info("persistence"))
    found["s to rewrite the append-only file, on the slowest server"] = max(
        float(one["aof_last_rewrite_time_sec"]) for one in about
    )
    found["ms for which the fork stops the server"] = site.most_of("stats", "latest_fork_usec") / 1000
    found["MB copied during the rewrite"] = sum(float(one["aof_last_cow_size"]) for one in about) / 1e6
    found["GB of the file"] = sum(float(one["aof_current_size"]) for one in about) / 1e9


def resp_info(server: ServerProcess, section: str) -> dict[str, str]:
    with plain_client.RespConnection.connect(server.address, LOAD_S) as line:
        return parse_info(line.call("INFO", section))


def restart(site: Site, found: dict[str, float]) -> None:
    """Kills the servers and starts them again, one after the other."""
    process.START_S = LOAD_S  # an embedded server has ten seconds
    longest = 0.0
    for server in site.servers:
        server.kill()
        began = time.perf_counter()
        server.restart()
        longest = max(longest, time.perf_counter() - began)
    found["s from kill -9 until the server has loaded its file, on the slowest server"] = longest
    for server in site.servers:
        for _ in plain_client.backoff_delays(60):
            if resp_info(server, "cluster").get("cluster_enabled") == "0" or b"cluster_state:ok" in server.ask(
                "CLUSTER", "INFO"
            ):
                break


def run(site: Site, sizes: Sequence[int]) -> list[Readings]:
    taken: list[Readings] = []
    site.ask("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
    with tarry.Client(site.url, patience=LOAD_S) as client:
        topic: Any = client.topic("orders", partitions=site.partitions)
        before = 0
        for size in sizes:
            say(f"{size:,} jobs in {site.partitions or 1} partitions on {len(site.servers)} servers")
            fill(client, topic, site, before, size)
            taken.append(look(topic, site, size))
            before = size
        last = taken[-1]
        rewrite(site, last.more)
        restart(site, last.more)
        began = time.perf_counter()
        topic.add(BODY)
        job = topic.pop()
        assert job is not None
        topic.finish(job)
        last.more["ms for an add, a pop and a finish after that"] = (time.perf_counter() - began) * 1000
        assert topic.stats().delayed > size * 0.99
    return taken


@contextmanager
def one_server() -> Iterator[Site]:
    with private_server() as server:
        yield Site([server], server.url, None)


@contextmanager
def several_masters(masters: int, partitions: int) -> Iterator[Site]:
    with clusters.cluster(masters) as servers:
        yield Site(servers, f"redis+cluster://127.0.0.1:{clusters.port_of(servers[0])}", partitions)


def as_markdown(runs: dict[str, list[Readings]]) -> str:
    headings = [
        "servers' ms per call",
        *[f"{one.pending / 1e6:g} M, {name}" for name, taken in runs.items() for one in taken],
    ]
    columns = [one for taken in runs.values() for one in taken]
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    for what in columns[0].calls:
        cells = [f"{one.calls[what].servers_ms:,.3g}" if what in one.calls else "–" for one in columns]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    headings[0] = "more"
    lines += ["", "| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    for what in dict.fromkeys(name for one in columns for name in one.more):
        cells = [f"{one.more[what]:,.3g}" if what in one.more else "–" for one in columns]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    about = table.machine("full", 1)
    lines += ["", f"Measured on {datetime.now(timezone.utc):%Y-%m-%d} with "]
    lines[-1] += (
        ", ".join(f"{name} {about[name]}" for name in ("python", "redis-py", "processors", "load before")) + "."
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.pending", description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--masters", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the readings in this file, beside those of earlier runs"
    )
    parser.add_argument(
        "--only", choices=("one", "several", "none"), help="one server, several masters, or what is kept"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the tables in a Markdown page")
    given = parser.parse_args()
    sizes = (given.jobs // 10, given.jobs)
    kept = given.json.read_bytes() if given.json and given.json.exists() else b"{}"
    runs = msgspec.json.decode(kept, type=dict[str, list[Readings]])

    def take(name: str, place: AbstractContextManager[Site]) -> None:
        with place as site:
            runs[name] = run(site, sizes)
        if given.json:
            given.json.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")

    if given.only in (None, "one"):
        take("one server", one_server())
    if given.only in (None, "several"):
        name = f"{given.partitions} partitions, {given.masters} masters"
        take(name, several_masters(given.masters, given.partitions))
    text = as_markdown(runs)
    print(text)
    if given.write:
        table.write(given.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
