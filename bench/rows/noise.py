"""The machine's own noise: a bare loop of PING. Compare it before you compare two runs.

A run is reliable when the spread is small, and comparable with another one when the medians are alike.
"""

from __future__ import annotations

from redis import Redis

from bench.harness import Bench
from bench.results import Result, Turn, rates


def noise(bench: Bench) -> list[Result]:
    count = bench.size(3_000, 1_500, 100)
    with Redis(unix_socket_path=bench.socket) as redis:

        def ping() -> Turn:
            with bench.turn(count) as taken:
                for _ in range(count):
                    redis.ping()
            return taken()

        turns = bench.turns(ping, times=bench.size(6, 3, 1))[0]
    return [Result("noise", "PING by redis-py, one by one", "calls/s", rates(turns))]
