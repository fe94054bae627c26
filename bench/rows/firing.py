"""10,000 schedules fall due within a second, 4 worker processes wait: when have all fired, how long does a PING wait meanwhile?

fired    from the second in which they fall due until the last job was added; handled: until its handler ran. Workers and server
         share the machine's clock
PING     another client's, one after the other, a millisecond apart. Its yardstick is the same loop's timer, which knows how busy the
         machine is: five processes want its processors
server   the longest script, and the scripts of schedules: a server that is busy with one cannot answer a PING

Missed occurrences: the topics are paused until then.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target
from tarry.clients.schedule_verbs import schedule_definition
from tarry.connections.embedded.plain_client import RespConnection
from tarry.core.requests import ScriptCall
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Timing
from tarry.verbs.schedules import definitions, fire
from tarry.verbs.schedules.records import Missed

WORKERS, STEP, AHEAD_S, SECOND, PING_S = 4, 500, 8.0, 1_000_000, 0.001
EVERY = DAY_S * SECOND


@dataclass(frozen=True, slots=True)
class Kind:
    """``missed_s``: for how long no consumer was there."""

    what: str
    schedules: int
    topics: int
    cron: str | None = None
    missed: Missed = "once"
    missed_s: int = 0


KINDS = (
    Kind("10,000 schedules of a topic due within a second", 10_000, 1),
    Kind("10,000 schedules of 200 topics due within a second", 10_000, 200),
    Kind("10,000 schedules by calendar, due at once", 10_000, 1, cron="0 0 * * *", missed_s=DAY_S),
    Kind("10,000 schedules that missed 60 occurrences each, a job for the last", 10_000, 1, missed_s=60 * DAY_S),
    Kind(
        "1,000 schedules that missed 60 occurrences each, a job for each", 1_000, 1, missed="all", missed_s=60 * DAY_S
    ),
)


def firing(bench: Bench) -> list[Result]:
    return [result for kind in KINDS for result in _measure(bench, kind)]


def _measure(bench: Bench, kind: Kind) -> list[Result]:
    count, topics = bench.size(kind.schedules, kind.schedules, 100), min(kind.topics, bench.size(200, 200, 5))
    jobs = count * (kind.missed_s // DAY_S if kind.missed == "all" else 1)
    fired_s, ping_ms, timer_ms, details = list[float](), list[float](), list[float](), list[dict[str, float]]()
    for _ in range(bench.repeat):
        bench.flush()
        workers = [_start(bench.url, topics) for _ in range(WORKERS)]
        try:
            for worker in workers:
                worker.stdout.readline()  # it has started
            with tarry.Client(bench.url) as client:
                names = [f"topic-{number}" for number in range(topics)]
                due = _put(client, names, kind, count)
                time.sleep(max(0, due / SECOND - time.time()))
                bench.server.ask("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "1000000")
                waits, timers = _ping(bench, client, names, jobs)
            rows = [json.loads(line) for worker in workers for line in worker.communicate()[0].splitlines()]
        finally:
            for worker in workers:
                worker.kill()
        seen = {
            id: (created, at) for id, created, at in sorted(rows, reverse=True)
        }  # of a job that ran twice the first run
        assert len(seen) == jobs, (len(seen), jobs)
        fired_s.append(max(created for created, _ in seen.values()) - due / SECOND)
        ping_ms.append(1000 * max(waits))
        timer_ms.append(1000 * max(timers))
        handled = sorted(at - due / SECOND for _, at in seen.values())
        details.append(
            {
                "PING p99, ms": 1000 * statistics.quantiles(waits, n=100)[98],
                "its timer p99, ms": 1000 * statistics.quantiles(timers, n=100)[98],
                "first handled, s": handled[0],
                "median, s": handled[len(handled) // 2],
                "last, s": handled[-1],
                **_scripts(bench),
            }
        )
    told: dict[str, float | str] = {name: statistics.median(one.get(name, 0) for one in details) for name in details[0]}
    fired, waited, timer = Reading(tuple(fired_s)), Reading(tuple(ping_ms)), Reading(tuple(timer_ms))
    return [
        Result("firing", f"{kind.what}: all have fired", "s", fired, Target("≤", 5), details=told),
        Result("firing", f"{kind.what}: longest PING", "ms", waited, Target("≤", 50), timer),
    ]


def _start(url: str, topics: int) -> Any:
    command = [sys.executable, "-m", "bench.worker", "firing", url, str(topics)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _put(client: tarry.Client, names: list[str], kind: Kind, count: int) -> int:
    """Answers when they are due, in microseconds."""
    verbs = [client.topic(name).verbs for name in names]
    each = [
        schedule_definition(
            verbs[n % len(verbs)].context,
            f"s{n}",
            BODY,
            Timing(every=None if kind.cron else EVERY / SECOND, cron=kind.cron, missed=kind.missed),
            JobOptions(),
        )
        for n in range(count)
    ]
    due = round((time.time() + AHEAD_S) * SECOND)
    if kind.missed_s:
        for name in names:
            client.topic(name).pause(AHEAD_S)
    first = due - kind.missed_s * SECOND + (EVERY // 2 if kind.missed_s and not kind.cron else 0)
    for number, one in enumerate(verbs):
        mine = list(enumerate(each))[number :: len(verbs)]
        for at in range(0, len(mine), STEP):
            items = [
                word
                for n, said in mine[at : at + STEP]
                for word in (
                    said.id.encode(),
                    *said.encoded,
                    b"%d" % (first + n * SECOND // count),
                    b"%d" % (first + n * SECOND // count - (0 if kind.cron else EVERY)),
                )
            ]
            client.engine.run(ScriptCall(definitions.PUT, definitions.PUT.keys_for(one.keys), (), list, items=items))
    assert time.time() * SECOND < due, "putting them took too long"
    return due


def _ping(bench: Bench, client: tarry.Client, names: list[str], jobs: int) -> tuple[list[float], list[float]]:
    """Until all jobs are finished: how long each PING waited, and by how much its timer was late."""
    waits, timers = list[float](), list[float]()
    left, look = list(names), time.perf_counter() + 1
    with RespConnection.connect(bench.socket, 30) as line:
        while left:
            began = time.perf_counter()
            line.call("PING")
            answered = time.perf_counter()
            waits.append(answered - began)
            time.sleep(PING_S)
            timers.append(time.perf_counter() - answered - PING_S)
            if answered > look:
                while left and client.topic(left[-1]).stats().finished >= jobs // len(names):
                    left.pop()
                look = time.perf_counter() + 0.2
    return waits, timers


def _scripts(bench: Bench) -> dict[str, float]:
    """From the server's own log of commands: the longest script, how many fired schedules, and the longest of these."""
    with RespConnection.connect(bench.socket, 30) as line:
        entries: Any = line.call("SLOWLOG", "GET", "-1")
        line.call("CONFIG", "SET", "slowlog-log-slower-than", "-1")
        line.call("SLOWLOG", "RESET")
    scripts = [(words[1], took) for _, _, took, words, *_ in entries if words[0] == b"EVALSHA"]
    firing = [took for sha, took in scripts if sha == fire.FIRE.sha]
    return {
        "longest script, ms": max(took for _, took in scripts) / 1000,
        "longest of schedules, ms": max(firing) / 1000,
        "their median, ms": statistics.median(firing) / 1000,
        "their number": len(firing),
    }
