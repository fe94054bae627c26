"""The cost of a limit for one ``pop``: the same topic with a rate, with a cap, with both, beside one without, in turns.

The limits are so high that they never apply. The server's own time in the script (INFO commandstats; nothing
else is called meanwhile).
"""

from __future__ import annotations

from typing import Any

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target

LIMITS: dict[str, dict[str, Any]] = {
    "no limit": {},
    "a rate": {"rate": "1000000/1s"},
    "a cap": {"concurrency": 100_000},
    "a rate, a cap and a lateness": {"rate": "1000000/1s", "concurrency": 100_000, "max_lateness": "1h"},
}
MOST = 1000


def limited(bench: Bench) -> list[Result]:
    count, rounds = bench.size(500, 300, 20), bench.repeat * bench.size(4, 4, 1)
    server_us: dict[str, list[float]] = {name: [] for name in LIMITS}
    with tarry.Client(bench.url) as client:
        topics = {name: client.topic(f"orders, {name}") for name in LIMITS}
        for name, topic in topics.items():
            topic.add_many([BODY] * bench.size(10_000, 10_000, 1_000), delay=DAY_S)
            if LIMITS[name]:
                topic.configure(**LIMITS[name])
        bench.settle()
        for number in range(rounds + 1):
            for name, topic in topics.items():
                topic.add_many([BODY] * count)
                before = bench.calls()["evalsha"]
                held = [job for job in (topic.pop() for _ in range(count)) if job is not None]
                after = bench.calls()["evalsha"]
                assert (len(held), after[0] - before[0]) == (count, count)
                for at in range(0, count, MOST):
                    topic.finish_many(held[at : at + MOST])
                if number:
                    server_us[name].append((after[1] - before[1]) / count)
    without = Reading(tuple(server_us["no limit"]))
    return [
        Result(
            "limited",
            f"server time of a pop with {name}",
            "µs",
            Reading(tuple(times)),
            Target("≤", 1.3, "ratio"),
            without,
        )
        for name, times in server_us.items()
        if LIMITS[name]
    ]
