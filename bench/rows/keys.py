"""The cost of keys: ``pop`` and ``pop_many`` of a topic whose jobs have 10,000 keys that take turns, beside one without keys, in turns; and
the memory of a pending job with a key, beside one without.

Both topics have the same jobs pending, all far in the future but for those that are popped; each of these has another key. Time is
the server's own in the script (INFO commandstats; nothing else is called meanwhile). Memory is the mean of bodies of 100 to 300 bytes, which
fill the steps of the allocator differently.
"""

from __future__ import annotations

from typing import Any

import tarry
from bench.harness import DAY_S, Bench
from bench.results import Reading, Result, Target
from bench.rows.memory import used

BATCH = 100
PORTION = 10_000
BODIES = [{"text": "x" * length} for length in range(89, 290, 20)]
"""Of 100 to 300 bytes of JSON."""


def key_of(number: int) -> str:
    return f"customer-{number:05}"


def keys(bench: Bench) -> list[Result]:
    return [*_pops(bench), _memory(bench)]


def _jobs(count: int, keys: int, begin: int = 0) -> list[tarry.NewJob[Any]]:
    """Jobs without keys where there are none."""
    return [
        tarry.NewJob(BODIES[n % len(BODIES)], key=key_of(n % keys) if keys else None)
        for n in range(begin, begin + count)
    ]


def _pops(bench: Bench) -> list[Result]:
    pending, number_of_keys = bench.size(300_000, 300_000, 2_000), bench.size(10_000, 10_000, 500)
    count, rounds = bench.size(500, 300, 20), bench.repeat * bench.size(4, 4, 1)
    popped = {"pop": (1, count), "pop_many(100)": (BATCH, max(count // 10, 2))}
    server_us: dict[tuple[str, str], list[float]] = {(verb, side): [] for verb in popped for side in ("keys", "none")}
    with tarry.Client(bench.url) as client:
        topics = {"keys": client.topic("calls"), "none": client.topic("orders")}
        topics["keys"].configure(fair=True, key_concurrency=2)
        for side, topic in topics.items():
            for at in range(0, pending, PORTION):
                topic.add_many(
                    _jobs(min(PORTION, pending - at), number_of_keys if side == "keys" else 0, at), delay=DAY_S
                )
        bench.settle()
        for number in range(rounds + 1):
            for verb, (batch, calls) in popped.items():
                for side, topic in topics.items():
                    for at in range(0, batch * calls, PORTION):
                        topic.add_many(
                            _jobs(min(PORTION, batch * calls - at), number_of_keys if side == "keys" else 0, at)
                        )
                    before = bench.calls()["evalsha"]
                    held = [topic.pop_many(batch) for _ in range(calls)]
                    after = bench.calls()["evalsha"]
                    assert (sum(map(len, held)), after[0] - before[0]) == (batch * calls, calls)
                    for some in held:
                        topic.finish_many(some)
                    if number:
                        server_us[verb, side].append((after[1] - before[1]) / calls)
    return [
        Result(
            "keys",
            f"server time of {verb}, {pending:,} pending, {number_of_keys:,} keys that take turns",
            "µs",
            Reading(tuple(server_us[verb, "keys"])),
            Target("≤", 1.3, "ratio") if verb == "pop" else None,
            Reading(tuple(server_us[verb, "none"])),
        )
        for verb in popped
    ]


def _memory(bench: Bench) -> Result:
    count, number_of_keys = bench.size(100_000, 100_000, 1_100), bench.size(10_000, 10_000, 110)
    bytes_each = dict[int, float]()
    with tarry.Client(bench.url) as client:
        for keys in (0, number_of_keys):
            bench.flush()
            topic = client.topic(f"letters-{keys}")
            topic.add_many(_jobs(10, keys), delay=DAY_S)
            before = used(bench)
            for at in range(0, count, PORTION):
                topic.add_many(_jobs(min(PORTION, count - at), keys, at), delay=DAY_S)
            bytes_each[keys] = (used(bench) - before) / count
    plain, keyed = bytes_each.values()
    return Result(
        "keys",
        f"server memory that a key adds to a pending job, {count:,} of them, {number_of_keys:,} keys of {len(key_of(0))} bytes",
        "bytes",
        Reading((keyed - plain,)),
        Target("≤", 100 + 2 * len(key_of(0))),
        None,
        {"with a key": keyed, "without": plain},
    )
