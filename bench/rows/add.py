"""One blocking client adds one by one.

tarry       ``topic.add(body, delay=3600)``: checks, a default id, JSON, the script with its replay rule and the watch
yardstick   redis-py's ``evalsha`` of HSET + ZADD, ids and bytes ready made
"""

from __future__ import annotations

from redis import Redis

import tarry
from bench.harness import BARE_ADD, BODY, RAW_BODY, Bench
from bench.results import Result, Target, Turn, costs, rates


def add(bench: Bench) -> list[Result]:
    count = bench.size(1_500, 1_000, 50)
    with tarry.Client(bench.url) as client, Redis(unix_socket_path=bench.socket) as redis:
        topic = client.topic("orders")
        sha = redis.script_load(BARE_ADD)

        def by_tarry() -> Turn:
            with bench.turn(count) as taken:
                for _ in range(count):
                    topic.add(BODY, delay=3600)
            return taken()

        def bare() -> Turn:
            with bench.turn(count) as taken:
                for number in range(count):
                    redis.evalsha(sha, 2, "bare:jobs", "bare:due", f"job-{number}", number, RAW_BODY)
            return taken()

        ours, theirs = bench.turns(by_tarry, bare, times=bench.size(6, 3, 1))
    return [
        Result(
            "add",
            "blocking add, one by one",
            "jobs/s",
            rates(ours),
            Target("≥", 0.8, "ratio"),
            rates(theirs),
            costs(ours, "tarry") | costs(theirs, "bare"),
        )
    ]
