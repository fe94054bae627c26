"""Is the suite ever red for nothing? `make test-steady` asks the tests that could be, `make test-steady WHOLE=6` the whole suite, too.

    make test-steady                 the tests of RACY, 20 times, beside two busy loops per core
    make test-steady ROUNDS=3        three times
    make test-steady WHOLE=6         then `make test` six times, every other one beside the busy loops
    tests/steady.py --round          the tests of RACY once, in the foreground and unrecorded
    tests/steady.py --beside make test   a command, beside two busy loops per core: both for `make prove`

Each run has its output in build/steady, and a line in build/steady/record.jsonl: the commit, what ran, the load, what failed, what
was unsteady. Interrupted, it goes on with what the record does not have for this commit. It ends with a list of what failed when,
and fails if anything did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "steady"
RECORD = FOLDER / "record.jsonl"
CORES = os.cpu_count() or 1
MOMENT = "%Y-%m-%d %H:%M:%S"
RACY = """
    chaos/test_chaos.py::test_mixed_faults_break_no_promise
    chaos/test_killed_run.py
    conformance/test_continuation.py conformance/test_programs.py
    distributed/test_failover.py distributed/test_failover_clients.py distributed/test_failover_confirmed.py
    distributed/test_killed_workers.py distributed/test_migration_killed.py
    embedded/test_share.py
    faults/test_busy_servers.py faults/test_frozen_servers.py faults/test_reset_connections.py faults/test_servers.py
    faults/test_silence.py faults/test_tracking_ends.py
    locks/test_lock_once.py locks/test_redis_faults.py locks/test_zookeeper_faults.py
    redisson/mapcache/test_listeners.py
    programs/test_demo.py worker/test_child_runs.py worker/test_children.py worker/test_heartbeat.py
    worker/test_modes.py worker/test_outage.py worker/test_overruns.py
    worker/test_processes.py worker/test_recovery.py worker/test_recovery_cut_off.py worker/test_renewal.py
    schedules/test_killed_consumers.py
    service/test_disconnects.py service/test_processes.py
    sqs/test_losses.py
    upgrade/test_rolling.py
""".split()
"""Real processes, fail-overs, waits, real ttls."""
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**7): pass"
"""It ends with the process that started it, however that ended."""


def plan(rounds: int, whole: int) -> Iterator[tuple[str, bool]]:
    """What is to run, by name, and whether beside busy loops."""
    for number in range(1, rounds + 1):
        yield f"racy {number}", True
    for number in range(1, whole + 1):
        yield f"whole {number}", number % 2 == 0


def commit() -> str:
    """What is checked out; one with changes is nobody's."""
    words = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def busy_loops(many: int) -> Iterator[None]:
    """Beside the tests."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(many)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def racy() -> list[str]:
    """The command of a round."""
    places = [f"tests/{place}" for place in RACY]
    return [sys.executable, "-m", "pytest", "-n", str(4 * CORES), "-m", "not long", *places]


def run(name: str, *, busy: bool) -> dict[str, Any]:
    """Runs one of them, and answers its line of the record."""
    words = racy() if name.startswith("racy") else ["make", "test"]
    began = time.time()
    output = FOLDER / f"{name.replace(' ', '-')}.log"
    with output.open("wb") as said, busy_loops(2 * CORES if busy else 0):
        code = subprocess.run(words, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, check=False).returncode
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()
    return {
        "commit": commit(),
        "run": name,
        "busy": busy,
        "began": time.strftime(MOMENT, time.localtime(began)),
        "seconds": round(time.time() - began),
        "load": os.getloadavg()[0],
        "code": code,
        "tests": next((line for line in reversed(lines) if " passed" in line or " failed" in line), ""),
        "failed": sorted(
            {line.split(maxsplit=1)[1].partition(" - ")[0] for line in lines if line.startswith("FAILED ")}
        ),
        "unsteady": [line for line in lines if line.startswith("unsteady: ")],
    }


def main() -> int:
    """Whatever of the plan the record does not have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--whole", type=int, default=0)
    parser.add_argument("--round", action="store_true")
    parser.add_argument("--beside", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if asked.beside:
        with busy_loops(2 * CORES):
            return subprocess.run(asked.beside, check=False).returncode
    if asked.round:
        return subprocess.run(racy(), cwd=ROOT, check=False).returncode
    FOLDER.mkdir(parents=True, exist_ok=True)
    RECORD.touch()
    begun = time.strftime(MOMENT)
    for name, busy in plan(asked.rounds, asked.whole):
        if any(one["run"] == name for one in recorded(begun)):
            continue
        line = run(name, busy=busy)
        with RECORD.open("a", encoding="utf-8") as record:
            print(json.dumps(line), file=record)
        print(name, *line["failed"], *line["unsteady"], line["tests"], sep="\n  ", flush=True)
    names = [name for name, _ in plan(asked.rounds, asked.whole)]
    lines = [one for one in recorded(begun) if one["run"] in names]
    red = [one for one in lines if one["code"] or one["failed"] or one["unsteady"]]
    print(f"{commit()}: {len(lines)} runs, {len(red)} of them red or unsteady; {RECORD.relative_to(ROOT)}")
    for one in red:
        print(one["began"], one["run"], *(one["failed"] or [f"ended with {one['code']}"]), sep="\n  ")
    return bool(red)


def recorded(begun: str) -> list[dict[str, Any]]:
    """Of this commit; where it has changes that are in none, of this call."""
    here = commit()
    lines = [one for one in map(json.loads, RECORD.read_text(encoding="utf-8").splitlines()) if one["commit"] == here]
    return [one for one in lines if one["began"] >= begun or not here.endswith("-dirty")]


if __name__ == "__main__":
    sys.exit(main())
