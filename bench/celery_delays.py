"""Celery's countdown, plain and with tarry, while workers are killed: `python -m bench.celery_delays`.

2,000 tasks with countdowns of 1 s to 4 minutes and a visibility timeout of 60 s; a worker is killed with -9 every 45 s and another
one started. Then the memory of a worker while 100,000 tasks wait. Takes about twelve minutes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from celery import Celery

import tarry.celery
from tarry.connections.embedded.process import ServerProcess, launch

TASKS, LONGEST_S, KILL_EVERY_S, WAITING = (int(os.environ.get(f"DELAYS_{name}", usual)) for name, usual in (
    ("TASKS", 2000), ("LONGEST", 240), ("KILL_EVERY", 45), ("WAITING", 100_000)
))  # fmt: skip
VISIBILITY_S = 60


def make_app(kind: str, url: str) -> Celery:
    app = Celery("delays", broker=f"redis+socket://{url.removeprefix('unix://')}", set_as_current=False)
    app.conf.broker_transport_options = {"visibility_timeout": VISIBILITY_S}
    app.conf.task_ignore_result = True
    app.conf.task_acks_late = True
    if kind != "plain":
        tarry.celery.install(app, url)

    @app.task(name="delays.run", shared=False)
    def run(number: int, due: float) -> None:
        with Path(os.environ["DELAYS_RUNS"]).open("a") as file:
            file.write(json.dumps([number, due, time.time()]) + "\n")

    return app


def measure(kind: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp") as folder:
        redis = launch(Path(folder), socket=Path(folder) / "s", options=("--appendonly", "yes"))
        try:
            os.environ.update(DELAYS_KIND=kind, DELAYS_URL=redis.url, DELAYS_RUNS=f"{folder}/runs")
            return {**under_kills(redis, Path(folder), kind), **memory(redis, Path(folder), kind)}
        finally:
            redis.stop()


def under_kills(redis: ServerProcess, folder: Path, kind: str) -> dict[str, Any]:
    app, draw = make_app(kind, redis.url), random.Random(7)
    workers = [start(folder), start(folder)]
    run: Any = app.tasks["delays.run"]
    begin = time.time()
    for number in range(TASKS):
        countdown = draw.uniform(1, LONGEST_S)
        run.apply_async([number, time.time() + countdown], countdown=countdown)
    while time.time() < begin + LONGEST_S + 2 * VISIBILITY_S:
        time.sleep(KILL_EVERY_S)
        if time.time() < begin + LONGEST_S:
            end(workers.pop(0), signal.SIGKILL)
            workers.append(start(folder))
    for worker in workers:
        end(worker, signal.SIGKILL)
    app.close()
    runs = [json.loads(line) for line in (folder / "runs").read_text().splitlines()]
    times, first = Counter(number for number, _, _ in runs), {}
    for number, due, at in runs:
        first.setdefault(number, at - due)
    late = sorted(first.values())
    return {
        "runs": len(runs),
        "run twice or more": sum(count > 1 for count in times.values()),
        "lost": TASKS - len(times),
        "early": sum(value < 0 for value in late),
        "late p50, s": round(late[len(late) // 2], 3),
        "late p99, s": round(late[len(late) * 99 // 100], 3),
    }


def memory(redis: ServerProcess, folder: Path, kind: str) -> dict[str, Any]:
    redis.ask("FLUSHALL")
    app = make_app(kind, redis.url)
    run: Any = app.tasks["delays.run"]
    worker = start(folder)
    with app.producer_or_acquire() as producer:
        for number in range(WAITING):
            run.apply_async([number, 0], countdown=86_400, producer=producer)
    while kind == "plain" and int(redis.ask("LLEN", "celery") or 0):  # type: ignore[arg-type]
        time.sleep(1)
    time.sleep(5)
    status = Path(f"/proc/{worker.pid}/status").read_text()
    end(worker, signal.SIGKILL)
    app.close()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    return {f"worker's memory with {WAITING:,} waiting, MB": int(resident) // 1024}


def start(folder: Path) -> subprocess.Popen[bytes]:
    words = (
        "-A",
        "bench.celery_delays:worker_app",
        "worker",
        "-c",
        "2",
        "--loglevel",
        "ERROR",
        "-n",
        f"{random.random()}@here",
    )
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", *words], stdout=log, stderr=log, start_new_session=True
        )


def end(worker: subprocess.Popen[bytes], how: int) -> None:
    os.killpg(worker.pid, how)
    worker.wait()


def main() -> None:
    found = {kind: measure(kind) for kind in ("plain", "tarry")}
    print("| | Celery alone | with tarry |\n|---|---|---|")
    for row in found["plain"]:
        print(f"| {row} | {found['plain'][row]:,} | {found['tarry'][row]:,} |")


if __name__ == "__main__":
    main()
elif "DELAYS_KIND" in os.environ:
    worker_app = make_app(os.environ["DELAYS_KIND"], os.environ["DELAYS_URL"])
