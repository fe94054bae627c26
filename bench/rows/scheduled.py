"""10,000 schedules in a topic, none due today, 5 consumers with a client each wait: how many calls do they send?

Counted as in the row ``idle``, for comparison: schedules add no calls.
"""

from __future__ import annotations

import asyncio

import tarry
from bench.harness import DAY_S, Bench
from bench.results import Reading, Result, Target
from bench.rows.idle import CONSUMERS, waiting_calls
from tarry.core.requests import ScriptCall
from tarry.verbs.schedules import definitions, recurrences
from tarry.verbs.schedules.definitions import ScheduleDefinition

STEP = 500


def scheduled(bench: Bench) -> list[Result]:
    seconds, count = bench.size(20, 10, 1), bench.size(10_000, 10_000, 100)
    with tarry.Client(bench.url) as client:
        keys = definitions.PUT.keys_for(client.topic("orders").verbs.keys)
        client.schedules.put("orders", "first", every=DAY_S)
        now = round(client.topic("orders").stats().now.timestamp()) * 1_000_000
        for at in range(0, count, STEP):
            said = [
                ScheduleDefinition(
                    f"s{n}", recurrences.make_recurrence(DAY_S + n, None, "UTC"), "once", bytes(19) + b"null"
                )
                for n in range(at, min(at + STEP, count))
            ]
            items = [word for one in said for word in (one.id.encode(), *one.encoded, *one.start(now))]
            client.engine.run(ScriptCall(definitions.PUT, keys, (), list, items=items))
    calls = asyncio.run(waiting_calls(bench, seconds))
    return [
        Result(
            "scheduled",
            f"calls while {CONSUMERS} consumers wait beside {count:,} schedules",
            "calls/s",
            Reading((sum(calls.values()) / seconds,)),
            Target("≤", 1),
            details={name: n / seconds for name, n in calls.items()},
        )
    ]
