"""``tarry doctor`` on a topic of 98,000 jobs: the whole command, with Python's start, as somebody waits for it."""

from __future__ import annotations

import subprocess
import sys
import time

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target


def doctor(bench: Bench) -> list[Result]:
    count = bench.size(98_000, 98_000, 500)
    with tarry.Client(bench.url) as client:
        client.topic("orders").add_many([BODY] * count, delay=DAY_S)
    bench.settle()
    command = [sys.executable, "-m", "tarry", "--url", bench.url, "doctor"]
    took_s, server_us = list[float](), list[float]()
    for _ in range(bench.repeat):
        before, began = bench.calls()["evalsha"], time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)  # exits with 1: this server may lose jobs
        took_s.append(time.perf_counter() - began)
        server_us.append((bench.calls()["evalsha"][1] - before[1]) / count)
    return [
        Result(
            "doctor",
            f"`tarry doctor` with {count:,} jobs",
            "s",
            Reading(tuple(took_s)),
            Target("≤", 1),
            None,
            {"server's scripts, µs a job": Reading(tuple(server_us)).median},
        )
    ]
