"""The cost of one ``pop`` with 1 k, 100 k and 1 M jobs pending, all far in the future except for those being popped.

Three topics on one server take turns. Of each turn: the server's own time in the script (INFO commandstats, the clock of
EVALSHA, nothing else is called meanwhile), and the client's wait for the answer. The yardstick of the larger ones is the
smallest.
"""

from __future__ import annotations

import time
from statistics import median

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target

MOST = 1000


def _names(sizes: list[int]) -> list[str]:
    return [f"{size // 1_000_000} M" if size >= 1_000_000 else f"{size // 1000} k" for size in sizes]


def pop(bench: Bench) -> list[Result]:
    sizes = [1_000, bench.size(100_000, 100_000, 2_000), bench.size(1_000_000, 300_000, 3_000)]
    count = bench.size(500, 300, 20)
    server_us: dict[int, list[float]] = {size: [] for size in sizes}
    client_us: dict[int, list[float]] = {size: [] for size in sizes}
    with tarry.Client(bench.url) as client:
        topics = {size: client.topic(f"orders-{size}") for size in sizes}
        for size, topic in topics.items():
            for at in range(0, size, 100_000):
                topic.add_many([BODY] * min(100_000, size - at), delay=DAY_S)
        bench.settle()
        for number in range(bench.repeat + 1):
            for size, topic in topics.items():
                topic.add_many([BODY] * count)
                before, began = bench.calls()["evalsha"], time.perf_counter()
                jobs = [topic.pop() for _ in range(count)]
                wall, after = time.perf_counter() - began, bench.calls()["evalsha"]
                assert after[0] - before[0] == count
                held = [job for job in jobs if job is not None]
                assert len(held) == count
                for at in range(0, count, MOST):
                    topic.finish_many(held[at : at + MOST])
                if number:
                    server_us[size].append((after[1] - before[1]) / count)
                    client_us[size].append(wall / count * 1e6)
    smallest = Reading(tuple(server_us[sizes[0]]))
    return [
        Result(
            "pop",
            f"server time of a pop, {name} pending",
            "µs",
            Reading(tuple(server_us[size])),
            Target("≤", 2, "ratio") if size > sizes[0] else None,
            smallest if size > sizes[0] else None,
            {"client waits µs": median(client_us[size])},
        )
        for size, name in zip(sizes, _names(sizes), strict=True)
    ]
