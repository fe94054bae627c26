"""The server's memory for a pending job with a 200-byte body and a default id: growth of ``used_memory`` a job.

The yardstick is the same bytes under the same ids in one plain hash and one plain sorted set. Buffers of the append-only
file are not counted: they are freed a second later. Each side has one turn; memory does not depend on the machine's load.
"""

from __future__ import annotations

from redis import Redis

import tarry
from bench.harness import BODY, DAY_S, RAW_BODY, Bench
from bench.results import Reading, Result, Target


def used(bench: Bench) -> float:
    bench.settle()
    about = bench.info("memory")
    return float(about["used_memory"]) - float(about["mem_aof_buffer"]) - float(about["mem_clients_normal"])


def memory(bench: Bench) -> list[Result]:
    count = bench.size(100_000, 100_000, 1_000)
    with tarry.Client(bench.url) as client, Redis(unix_socket_path=bench.socket) as redis:
        topic = client.topic("orders")
        topic.add_many([BODY] * 10, delay=DAY_S)
        bench.flush()
        before = used(bench)
        added = topic.add_many([BODY] * count, delay=DAY_S)
        ours = (used(bench) - before) / count
        details: dict[str, float | str] = {}
        for part, key in {"jobs": topic.verbs.keys.jobs, "due": topic.verbs.keys.due}.items():
            details[part] = float(redis.memory_usage(key, samples=1000) or 0) / count
        bench.flush()
        before = used(bench)
        for at in range(0, count, 1000):
            some = added[at : at + 1000]
            redis.zadd("bare:due", {one.id: one.due.timestamp() * 1e6 for one in some})
            redis.hset("bare:jobs", mapping=dict.fromkeys([one.id for one in some], RAW_BODY))
        bare = (used(bench) - before) / count
    return [
        Result(
            "memory",
            f"server memory a pending job, {count:,} of them",
            "bytes",
            Reading((ours,)),
            Target("≤", 400),
            Reading((bare,)),
            details,
        )
    ]
