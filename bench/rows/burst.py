"""50,000 jobs fall due at one moment; one worker process hands each to a trivial handler and finishes it.

Measured from that moment until the last finish was answered. The worker waits already; server and worker share the
machine's clock. Processor time is the worker's and the server's over the same span, without the worker's start. With 1,000
slots; with the worker's default, which is to be as fast; and with as many slots as that has, so that it takes no job ahead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import tarry
from bench.harness import BODY, Bench
from bench.results import Result, Target, Turn, costs, rates, traffic
from tarry.worker.registry import CONCURRENCY

AHEAD_S = 1.5
MANY, DEFAULT = 1000, 0


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
            output = json.loads(worker.stdout)
            stats = topic.stats()
            assert (output["jobs"], stats.delayed, stats.ready, stats.reserved) == (count, 0, 0, 0), (output, stats)
            seen[slots] = traffic(sent, bench.network(), count)
            return Turn(count, output["wall_s"], output["cpu_s"], bench.server_cpu() - before)

    many, default, few = bench.turns(lambda: once(MANY), lambda: once(DEFAULT), lambda: once(CONCURRENCY))
    return [
        Result(
            "burst",
            f"{count:,} jobs due at once, one worker process, {what}",
            "jobs/s",
            rates(turns),
            {MANY: Target("≥", 40_000), DEFAULT: Target("≥", 0.95, "ratio")}.get(slots),
            rates(many) if slots == DEFAULT else None,
            details=costs(turns, "tarry") | seen[slots],
        )
        for slots, what, turns in (
            (MANY, f"{MANY:,} in hand", many),
            (DEFAULT, "as by default", default),
            (CONCURRENCY, f"{CONCURRENCY} in hand", few),
        )
    ]
