"""An add takes one script: the microseconds that the server counts for it (``INFO commandstats``), sent one by one.

tarry       ``topic.add``: with an id that tarry makes, with an id of one's own that may not exist yet, and due at once
yardstick   Redisson's offer as the articles print it, by redis-py: four keys, three commands, an element of the same size
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from redis import Redis

import tarry
from bench.harness import BODY, RAW_BODY, Bench
from bench.redisson import KEYS, OFFER
from bench.results import Reading, Result, Target

TURNS = 20
"""Short ones, in turns: a busy machine distorts the ratio least."""


def add_script(bench: Bench) -> list[Result]:
    calls = bench.size(200, 100, 20)
    number = count()
    with tarry.Client(bench.url) as client, Redis(unix_socket_path=bench.socket) as redis:
        topic, at_once = client.topic("orders"), client.topic("at-once")
        sha = redis.script_load(OFFER)

        def offer() -> None:
            n = next(number)
            redis.evalsha(sha, 4, KEYS.ready, KEYS.timeouts, KEYS.order, KEYS.channel, 10**12 + n, n, RAW_BODY)

        sides: dict[str, Callable[[], object]] = {
            "an id that tarry makes": lambda: topic.add(BODY, delay=3600),
            "an own id": lambda: topic.add(BODY, id=f"order-{next(number)}", delay=3600),
            "due at once": lambda: at_once.add(BODY),
            "an offer": offer,
        }
        spent: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(bench.repeat * bench.size(TURNS, 4, 1) + 1):
            for name, do in sides.items():
                calls_before, us_before = bench.calls()["evalsha"] if turn else (0, 0.0)
                for _ in range(calls):
                    do()
                calls_after, us_after = bench.calls()["evalsha"]
                if turn:  # the first ones load the scripts
                    spent[name].append((us_after - us_before) / (calls_after - calls_before))
    readings = {name: Reading(tuple(values)) for name, values in spent.items()}
    theirs = readings.pop("an offer")
    most = {"an id that tarry makes": 1.15, "an own id": 1.3}
    return [
        Result(
            "add_script",
            f"µs of the server in the script of an add, {name}",
            "µs",
            reading,
            Target("≤", most[name], "ratio") if name in most else None,
            theirs,
        )
        for name, reading in readings.items()
    ]
