"""A shared queue of 100,000 elements of 64 bytes with random due times, all due: how fast is it moved?

tarry      the mover's own flow, through a client
yardstick  the transfer script of the articles, 100 elements a call, by plain redis-py. A whole drain would take a minute:
           its first calls are measured on queues of several sizes (its time grows with the queue's length, because of
           LREM), and the whole is the sum over them
longest    the longest single script of tarry, by the server's SLOWLOG; on a busy machine it includes the time in which the
           server did not run
µs         processor time of the server an element, which a busy machine distorts least
"""

from __future__ import annotations

import time
from statistics import mean, median

from redis import Redis

import tarry
from bench.harness import Bench
from bench.redisson import BATCH, KEYS, NAME, fill, transfer
from bench.results import Reading, Result, Target
from tarry.verbs.redisson.delayed.transfer import transfer_all

PAYLOAD = b"x" * 64
PARTS = (1.0, 0.75, 0.5, 0.25)
SLOW_US = 2000


def queue_drain(bench: Bench) -> list[Result]:
    count = bench.size(100_000, 100_000, 2_000)
    calls = bench.size(10, 5, 1)
    ours: list[float] = []
    longest: list[float] = []
    theirs: list[float] = []
    costs: list[tuple[float, float]] = []
    with Redis.from_url(bench.url) as redis:
        redis.config_set("slowlog-max-len", 10_000)
        redis.config_set("slowlog-log-slower-than", SLOW_US)
        for number in range(bench.repeat + 1):
            rate, slowest, cost = _ours(bench, redis, count)
            if number:  # the first round warms up
                ours.append(rate)
                longest.append(slowest)
                rate, their_cost = _theirs(bench, redis, count, calls)
                theirs.append(rate)
                costs.append((cost, their_cost))
    details: dict[str, float | str] = {
        "tarry server µs": median(cost for cost, _ in costs),
        "yardstick server µs": median(cost for _, cost in costs),
    }
    what = f"{count:,} elements with random due times"
    words = f"longest of its scripts, {count:,} elements"
    return [
        Result(
            "queue_drain", what, "/s", Reading(tuple(ours)), Target("≥", 30, "ratio"), Reading(tuple(theirs)), details
        ),
        Result("queue_drain", words, "ms", Reading(tuple(longest)), Target("≤", 10)),
    ]


def _ours(bench: Bench, redis: Redis, count: int) -> tuple[float, float, float]:
    bench.flush()
    fill(redis, count, PAYLOAD)
    with tarry.Client(bench.url) as client:
        client.delayed_queue(NAME).size()  # it is connected
        redis.slowlog_reset()
        cpu, began = bench.server_cpu(), time.perf_counter()
        client.engine.run(transfer_all(KEYS))
        took, cpu = time.perf_counter() - began, bench.server_cpu() - cpu
    assert redis.llen(KEYS.ready) == count
    assert not redis.exists(KEYS.order, KEYS.timeouts)
    scripts = [entry["duration"] for entry in redis.slowlog_get(10_000) if entry["command"].startswith(b"EVAL")]
    return count / took, max(scripts, default=SLOW_US) / 1000, cpu / count * 1e6


def _theirs(bench: Bench, redis: Redis, count: int, calls: int) -> tuple[float, float]:
    took: list[float] = []
    cost: list[float] = []
    for part in PARTS:
        bench.flush()
        fill(redis, int(count * part), PAYLOAD)
        transfer(redis)  # the script is known
        cpu, began = bench.server_cpu(), time.perf_counter()
        for _ in range(calls):
            transfer(redis)
        took.append((time.perf_counter() - began) / calls)
        cost.append((bench.server_cpu() - cpu) / calls)
    return BATCH / _on_the_way_down(took), _on_the_way_down(cost) / BATCH * 1e6


def _on_the_way_down(batches: list[float]) -> float:
    """The average of all batches, the last queue being empty: half of the first, all of the others."""
    return mean([batches[0] / 2, *batches[1:]])
