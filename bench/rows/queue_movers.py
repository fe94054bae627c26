"""50 offers a second with random delays into a shared queue, 1, 5 and 20 consuming processes: scripts, lateness, a lost publish.

scripts    transfers a message, counted by the server, without offers
lateness   received by the consumer − due
lost       an element that was written without a publish, as when the message was lost: until it is received
yardstick  for the lateness: a timer and a PING in the process that offers
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import Any

from redis import Redis

import tarry
from bench.harness import Bench
from bench.redisson import KEYS, NAME
from bench.results import Reading, Result, Target
from tarry.verbs.redisson.elements import pack

RATE = 50
FEWEST_MS, MOST_MS = 200, 1500
CONSUMERS = (1, 5, 20)
SETTLE_S = 1.0


class ConsumerProcesses:
    """The consumer processes of one turn."""

    def __init__(self, bench: Bench, processes: int) -> None:
        words = [sys.executable, "-m", "bench.consumer", bench.url, NAME, str(processes)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with Redis.from_url(bench.url) as redis:
            while sum(row["cmd"] == "blpop" for row in redis.client_list()) < processes:
                time.sleep(0.05)  # they connect
        time.sleep(SETTLE_S if bench.effort != "tiny" else 0.1)

    def received_at(self) -> dict[str, float]:
        output, _ = self._process.communicate()
        return dict(json.loads(output))


def queue_movers(bench: Bench) -> list[Result]:
    results: list[Result] = []
    for consumers in CONSUMERS if bench.effort != "tiny" else (2,):
        bench.flush()
        results += _offered(bench, consumers)
    bench.flush()
    results.append(_lost(bench))
    return results


def _offered(bench: Bench, consumers: int) -> list[Result]:
    count = RATE * bench.size(20, 6, 1)
    processes, rng = ConsumerProcesses(bench, consumers), random.Random(7)
    due: dict[str, float] = {}
    bare: list[float] = []
    with tarry.Client(bench.url) as client, Redis.from_url(bench.url) as redis:
        queue = client.delayed_queue(NAME, codec="string", format="tarry")
        scripts = bench.calls().get("evalsha", (0, 0.0))[0]
        began = time.monotonic()
        for number in range(count):
            moment = began + number / RATE
            time.sleep(max(0.0, moment - time.monotonic()))
            redis.ping()
            bare.append((time.monotonic() - moment) * 1000)
            due[str(number)] = queue.offer(str(number), rng.randrange(FEWEST_MS, MOST_MS) / 1000).timestamp()
        time.sleep(MOST_MS / 1000)
        scripts = bench.calls()["evalsha"][0] - scripts - count
        seen = processes.received_at()
    assert seen.keys() == due.keys(), f"{len(due)} offered, {len(seen)} taken"
    late = sorted((seen[number] - due[number]) * 1000 for number in due)
    details: dict[str, float | str] = {"p50": late[len(late) // 2], "max": late[-1]}
    words = f"{consumers} consuming process" + ("es" if consumers > 1 else "")
    return [
        Result(
            "queue_movers", f"transfers a message, {words}", "scripts", Reading((scripts / count,)), Target("≤", 1.5)
        ),
        Result(
            "queue_movers",
            f"p99 of lateness, {RATE} messages/s, {words}",
            "ms",
            Reading((_p99(late),)),
            Target("≤", 10),
            Reading((_p99(sorted(bare)),)),
            details,
        ),
    ]


def _lost(bench: Bench) -> Result:
    processes, rng = ConsumerProcesses(bench, 2), random.Random(7)
    written: dict[str, float] = {}
    with Redis.from_url(bench.url) as redis:
        for number in range(bench.size(20, 8, 1)):
            payload = b"%d" % number
            element = pack(payload, rng.randbytes(8))
            written[str(number)] = now = time.time()
            pipe = redis.pipeline(transaction=True)
            pipe.zadd(KEYS.timeouts, {element: int(now * 1000)})
            pipe.rpush(KEYS.order, element)
            pipe.execute()
            time.sleep(1 + rng.random())
        seen = processes.received_at()
    late = sorted((seen.get(number, float("inf")) - at) * 1000 for number, at in written.items())
    details: dict[str, float | str] = {"p50": late[len(late) // 2]}
    words = "an offer whose publish was lost: until in hand, the worst"
    return Result("queue_movers", words, "ms", Reading((late[-1],)), Target("≤", 1000), details=details)


def _p99(values: list[Any]) -> float:
    return values[min(int(len(values) * 0.99), len(values) - 1)]
