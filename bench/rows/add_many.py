"""One blocking client adds many at once, 200 bytes each.

tarry       ``topic.add_many(bodies, delay=3600)``, which goes in scripts of 1,000 jobs
yardstick   redis-py, a pipeline of one variadic ZADD and one variadic HSET for each 1,000, ids and bytes ready made
"""

from __future__ import annotations

from redis import Redis

import tarry
from bench.harness import BODY, RAW_BODY, Bench
from bench.results import Result, Target, Turn, costs, rates, traffic

CHUNK = 1000


def add_many(bench: Bench) -> list[Result]:
    count = bench.size(50_000, 20_000, 100)
    bodies = [BODY] * count
    ids = [f"0000000000-job-{number:05}" for number in range(count)]
    with tarry.Client(bench.url) as client, Redis(unix_socket_path=bench.socket) as redis:
        topic = client.topic("orders")

        seen: dict[str, float | str] = {}

        def by_tarry() -> Turn:
            before = bench.network()
            with bench.turn(count) as taken:
                topic.add_many(bodies, delay=3600)
            seen.update(traffic(before, bench.network(), count))
            return taken()

        def bare() -> Turn:
            with bench.turn(count) as taken:
                for at in range(0, count, CHUNK):
                    some = ids[at : at + CHUNK]
                    pipe = redis.pipeline(transaction=False)
                    pipe.zadd("bare:due", dict(zip(some, range(at, at + CHUNK), strict=False)))
                    pipe.hset("bare:jobs", mapping=dict.fromkeys(some, RAW_BODY))
                    pipe.execute()
            return taken()

        ours, theirs = bench.turns(by_tarry, bare)
    return [
        Result(
            "add_many",
            "add_many, 200-byte bodies",
            "jobs/s",
            rates(ours),
            Target("≥", 0.45, "ratio"),
            rates(theirs),
            costs(ours, "tarry") | costs(theirs, "bare") | seen,
        )
    ]
