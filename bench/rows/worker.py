"""The public ``Worker`` in a process of its own: a burst for async and for plain handlers, lateness, and an idle worker.

burst      as in the row "burst": from the moment at which all jobs fall due until the last finish was answered
lateness   50 jobs a second with random delays of 200 to 1,500 ms; the yardstick, in the worker's loop and as often: a timer, then a
           PING on a connection of its own, from the moment to its answer
           the same with 200 jobs a second while a burst of another topic drains through the same worker
many       5,000 empty topics: until the last one's first job has run, and what the idle worker sends, commands in scripts counted
idle       a topic, and 20 topics, with jobs due tomorrow; calls counted by the server as in the row "idle", after the start,
           and processor time by the process
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target, Turn, costs, rates
from bench.rows.burst import AHEAD_S
from bench.rows.idle import OURS, inside_scripts
from bench.rows.lateness import FEWEST_MS, MOST_MS
from bench.worker import RATE, RATE_IN_A_BURST

MANY, DEFAULT = 1000, 0
TOPICS = 20


def _start(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.worker", *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _output_of(process: subprocess.Popen[str]) -> Any:
    output, _ = process.communicate()
    assert process.returncode == 0, process.returncode
    return json.loads(output)


def worker(bench: Bench) -> list[Result]:
    return [
        *_bursts(bench),
        _lateness(bench),
        _lateness_in_a_burst(bench),
        *_idle(bench, 1),
        *_idle(bench, TOPICS),
        *_many(bench),
    ]


def _bursts(bench: Bench) -> list[Result]:
    count = bench.size(50_000, 20_000, 500)

    def once(mode: str, slots: int) -> Turn:
        due = datetime.now(timezone.utc) + timedelta(seconds=AHEAD_S)
        with tarry.Client(bench.url) as client:
            topic = client.topic("orders")
            topic.add_many([BODY] * count, at=due)
            assert datetime.now(timezone.utc) < due, "adding took longer than the delay; nothing fell due at once"
            before = bench.server_cpu()
            output = _output_of(_start(mode, bench.url, count, due.timestamp(), slots))
            stats = topic.stats()
            assert (output["jobs"], stats.ready, stats.reserved) == (count, 0, 0), (output, stats)
            return Turn(count, output["wall_s"], output["cpu_s"], bench.server_cpu() - before)

    many, default, plain = bench.turns(
        lambda: once("async", MANY), lambda: once("async", DEFAULT), lambda: once("plain", DEFAULT)
    )
    sides = (
        (f"async handler, {MANY:,} slots", Target("≥", 30_000), many, None),
        ("async handler, as by default", Target("≥", 0.95, "ratio"), default, rates(many)),
        ("plain handler, 20 threads", Target("≥", 8_000), plain, None),
    )
    return [
        Result(
            "worker",
            f"{count:,} jobs due at once, one worker process, {what}",
            "jobs/s",
            rates(turns),
            target,
            yardstick,
            details=costs(turns, "tarry"),
        )
        for what, target, turns, yardstick in sides
    ]


def _lateness(bench: Bench) -> Result:
    bench.flush()
    count = RATE * bench.size(20, 8, 1)
    rng = random.Random(7)
    process = _start("late", bench.url, count)
    with tarry.Client(bench.url) as client:
        topic = client.topic("orders")
        topic.add(BODY)
        assert process.stdout is not None
        process.stdout.readline()  # it has started
        began = time.monotonic()
        for added in range(count):
            time.sleep(max(0.0, began + added / RATE - time.monotonic()))
            topic.add(BODY, delay=rng.randrange(FEWEST_MS, MOST_MS) / 1000)
    return _lateness_result(_output_of(process), f"one worker process, {RATE} jobs/s", Target("≤", 5))


def _lateness_in_a_burst(bench: Bench) -> Result:
    """The orders are due from before the burst begins until after its end; those in between count."""
    bench.flush()
    seconds, burst = bench.size(10, 10, 1), bench.size(200_000, 40_000, 500)
    count = RATE_IN_A_BURST * seconds
    with tarry.Client(bench.url) as client:
        process = _start("busy", bench.url, count, 0, burst)
        client.topic("orders").add(BODY)
        assert process.stdout is not None
        process.stdout.readline()  # it has started
        began = time.time()
        client.topic("burst").add_many([BODY] * burst, at=moment(began + seconds / 2))
        jobs = [tarry.NewJob(BODY, at=moment(began + seconds / 4 + n / RATE_IN_A_BURST)) for n in range(count)]
        client.topic("orders").add_many(jobs)
        output = _output_of(process)
    return _lateness_result(
        output, f"{RATE_IN_A_BURST} jobs/s, while a burst of another topic drains", Target("≤", 1.5, "ratio")
    )


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _lateness_result(output: dict[str, list[float]], which: str, target: Target) -> Result:
    late, held, bare, timer = (sorted(output[name]) for name in ("lateness_ms", "in_hand_ms", "bare_ms", "timer_ms"))
    p99 = int(len(late) * 0.99)
    details = {
        "p50": late[len(late) // 2],
        "max": late[-1],
        "in hand p50": held[len(held) // 2],
        "in hand p99": held[p99],
        "bare p50": bare[len(bare) // 2],
        "timer alone p99": timer[int(len(timer) * 0.99)],
    }
    bare_p99 = Reading((bare[int(len(bare) * 0.99)],))
    return Result("worker", f"p99 of lateness, {which}", "ms", Reading((late[p99],)), target, bare_p99, details)


def _idle(bench: Bench, topics: int) -> list[Result]:
    bench.flush()
    seconds = bench.size(60, 12, 1)
    with tarry.Client(bench.url) as client:
        for number in range(topics):
            client.topic(f"topic-{number}").add_many([BODY] * 100, delay=DAY_S)
    process = _start("idle", bench.url, topics)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()  # it has started
    time.sleep(bench.size(3, 3, 0))  # the first pops, and the second report
    process.stdin.write("begin\n")
    process.stdin.flush()
    before = bench.calls()
    time.sleep(seconds)
    after = bench.calls()
    output = _output_of(process)
    left_out = inside_scripts() | OURS
    calls = {name: after[name][0] - before.get(name, (0, 0.0))[0] for name in after if name not in left_out}
    details = {name: n / seconds for name, n in calls.items() if n}
    rate = Reading((sum(calls.values()) / seconds,))
    cpu = Reading((output["cpu_s"] / output["wall_s"] * 60,))
    which = "a topic" if topics == 1 else f"{topics} topics"
    reach = 0.5 if topics == 1 else 2
    return [
        Result("worker", f"calls of an idle worker with {which}", "calls/s", rate, Target("≤", reach), details=details),
        Result("worker", f"processor time of an idle worker with {which}", "s/min", cpu, Target("≤", 1)),
    ]


def _many(bench: Bench) -> list[Result]:
    bench.flush()
    topics, seconds = bench.size(5000, 1000, 50), bench.size(30, 12, 1)
    with tarry.Client(bench.url) as client:
        last = client.topic(f"topic-{topics - 1}")
        last.add(BODY)
        process = _start("many", bench.url, topics)
        while not last.stats().finished:
            time.sleep(0.1)
        time.sleep(bench.size(15, 12, 0))  # by then each topic has been looked at once
        before = bench.info("stats")["total_commands_processed"]
        time.sleep(seconds)
        commands = int(bench.info("stats")["total_commands_processed"]) - int(before)
    start_s = _output_of(process)["start_s"]
    which = f"a worker with {topics} topics"
    return [
        Result("worker", f"start of {which}", "s", Reading((start_s,)), Target("≤", 10)),
        Result("worker", f"commands of {which}, idle", "commands/s", Reading((commands / seconds,)), Target("≤", 500)),
    ]
