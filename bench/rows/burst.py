"""50,000 jobs fall due at one moment; one worker process hands each to a trivial handler and finishes it.

From that moment until the last finish was answered. The worker waits already, as it would; the clock is the machine's,
which server and worker share. Processor time is the worker's and the server's over the same span (the worker's start is
not in it). With 1,000 jobs in hand at a time, and with the worker's default.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import tarry
from bench.harness import BODY, Bench
from bench.results import Reach, Result, Turn, costs, rates, traffic
from tarry.programs.worker.registry import CONCURRENCY

AHEAD_S = 1.5
MANY = 1000


def burst(bench: Bench) -> list[Result]:
    count = bench.size(50_000, 20_000, 500)
    seen: dict[int, dict[str, float | str]] = {}

    def once(slots: int) -> Turn:
        due = datetime.now(timezone.utc) + timedelta(seconds=AHEAD_S)
        with tarry.Client(bench.url) as client:
            topic = client.topic("orders")
            topic.add_many([BODY] * count, at=due)
            assert datetime.now(timezone.utc) < due, "adding took longer than the delay; nothing fell due at once"
            before, sent = bench.server_cpu(), bench.network()
            words = [bench.url, topic.name, str(count), str(due.timestamp()), str(slots)]
            worker = subprocess.run(
                [sys.executable, "-m", "bench.drain", *words], check=True, stdout=subprocess.PIPE, text=True
            )
            told = json.loads(worker.stdout)
            stats = topic.stats()
            assert (told["jobs"], stats.delayed, stats.ready, stats.reserved) == (count, 0, 0, 0), (told, stats)
            seen[slots] = traffic(sent, bench.network(), count)
            return Turn(count, told["wall_s"], told["cpu_s"], bench.server_cpu() - before)

    many, default = bench.turns(lambda: once(MANY), lambda: once(CONCURRENCY))
    return [
        Result(
            "burst",
            f"{count:,} jobs due at once, one worker process, {slots:,} in hand",
            "jobs/s",
            rates(turns),
            Reach("≥", 40_000) if slots == MANY else None,
            details=costs(turns, "tarry") | seen[slots],
        )
        for slots, turns in ((MANY, many), (CONCURRENCY, default))
    ]
