"""What ``make chaos`` calls.

python -m tests.chaos                                 mixed faults for a minute
python -m tests.chaos --family cluster --minutes 5 --seed 7
python -m tests.chaos --all --minutes 80 --write      all families, one after the other; the page
python -m tests.chaos --render [FILE ...]             the page again, from docs/evidence/reliability.json, or of several results
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import plan
from .families import FAMILIES, Family
from .processes import TESTS
from .report import render, results_file
from .run import one

ROOT = TESTS.parent
RESULTS = ROOT / "chaos-results"
INSIDE = "CHAOS_CONFINED"
TARGET_EVENTS, ENOUGH_EVENTS = 560_000, 500_000


def asked(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", default="mixed", help="one or several, with commas: " + ", ".join(FAMILIES))
    parser.add_argument("--all", action="store_true", help="all families, one after the other")
    parser.add_argument("--seed", default="", help="the same seed is the same plan")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="in all, servers and checking included; 1, with --all 80"
    )
    parser.add_argument("--events", type=int, default=0, help="at least so many a family, for twice its time at most")
    parser.add_argument("--rate", type=float, default=1.0, help="of the adds, against the usual")
    parser.add_argument("--few", action="store_true", help="half as many processes")
    parser.add_argument("--write", action="store_true", help="write docs/evidence/reliability.json and the page")
    parser.add_argument(
        "--render",
        nargs="*",
        metavar="FILE",
        help="only write the page: from these results together, or from docs/evidence/reliability.json",
    )
    parser.add_argument("--plan", action="store_true", help="only show what would be done")
    parser.add_argument("--json", default="", help="where the results go; else a new file in chaos-results")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, _interrupted)
    told = asked(words)
    if told.render is not None:
        if told.render:
            write_page([json.loads(Path(name).read_text()) for name in told.render])
        else:
            render(ROOT)
        return 0
    seed = told.seed or str(random.randrange(1_000_000))
    names = list(FAMILIES) if told.all else [name.strip() for name in told.family.split(",")]
    if unknown := [name for name in names if name not in FAMILIES]:
        print(f"no such family: {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
        return 2
    if told.plan:
        for name in names:
            print(name, *plan.steps(FAMILIES[name], seed, 40), sep="\n")
        return 0
    minutes = told.minutes or (80.0 if told.all else 1.0)
    where = Path(told.json) if told.json else _new_file(seed)
    where.parent.mkdir(exist_ok=True)
    try:
        results = run_families(names, seed, minutes, told.events or (TARGET_EVENTS if told.all else 0), told, where)
    except KeyboardInterrupt:
        print(f"interrupted; the families that came to their end are in {where}")
        return 130
    if os.environ.get(INSIDE):
        return 0
    print(f"\nwritten to {where}")
    if told.write:
        write_page([results])
    ran = [one for one in results["runs"] if "events" in one]
    total, acknowledged = (sum(one[name] for one in ran) for name in ("events", "acknowledged"))
    small = [one["family"] for one in ran if one["events"] < ENOUGH_EVENTS]
    print(f"{total:,} events, {acknowledged:,} acknowledged adds, {len(ran)} of {len(names)} families")
    if told.all and small:
        print(f"below {ENOUGH_EVENTS:,} events: {', '.join(small)}")
    broken = [one["family"] for one in results["runs"] if one.get("breaches") or one.get("crashed")]
    if broken:
        print(
            f"promises were broken under {', '.join(broken)}; again: make chaos SEED={seed} FAMILY={','.join(broken)}"
        )
    return 1 if broken else 0


def run_families(
    names: list[str], seed: str, minutes: float, events: int, told: argparse.Namespace, where: Path
) -> dict[str, Any]:
    """All of them, within the time; each gets an equal share of what is left."""
    until = time.monotonic() + 60 * minutes
    runs: list[dict[str, Any]] = []
    machine = {"processors": os.cpu_count(), "python": sys.version.split()[0]}
    results = {"seed": seed, "runs": runs, "machine": machine, "commit": commit()}
    for number, name in enumerate(names):
        share = max((until - time.monotonic()) / (len(names) - number), 20.0)
        # starting, calming down, the last look and the checking are part of it
        seconds = max(share - max(25.0, share * 0.3), 5.0)
        if events:
            seconds /= 1.5  # there may be need of more
        print(f"\n== {name}, seed {seed}: {FAMILIES[name].fault}", flush=True)
        found = _one(FAMILIES[name], seed, seconds, events, told)
        runs.append(found)
        where.write_text(json.dumps(results, indent=1))
        show(found)
    return results


def _one(family: Family, seed: str, seconds: float, events: int, told: argparse.Namespace) -> dict[str, Any]:
    if family.confined and not os.environ.get(INSIDE):
        return _confined(family, seed, seconds, events, told)
    try:
        return one(family, seed, seconds, events, told.rate, told.few, keep=RESULTS / f"{family.name}-{seed}")
    except Exception as fault:  # noqa: BLE001  # the other families are run all the same
        import traceback

        traceback.print_exc()
        return {"family": family.name, "seed": seed, "crashed": f"{type(fault).__name__}: {fault}"}


def _confined(family: Family, seed: str, seconds: float, events: int, told: argparse.Namespace) -> dict[str, Any]:
    """The same in a network and a mount namespace of its own, which is gone when its last process is."""
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"confined-{os.getpid()}.json"
    minutes = (seconds * (1.5 if events else 1) + 30) / 60 * 1.3
    inner = ["ip", "link", "set", "lo", "up"], [sys.executable, "-m", "tests.chaos"]
    words = ["--family", family.name, "--seed", seed, "--minutes", f"{minutes:.2f}", "--events", str(events)]
    words += ["--rate", str(told.rate), "--json", str(file), *(["--few"] if told.few else [])]
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = " ".join(inner[0]) + ' && exec "$@"'
    command = ["unshare", "--mount", "--net", *own, "sh", "-c", script, "sh", *inner[1], *words]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, INSIDE: "1"}, check=False, stdout=subprocess.DEVNULL
        )
        if not file.exists():
            return {
                "family": family.name,
                "seed": seed,
                "skipped": f"needs namespaces (unshare ended with {done.returncode})",
            }
        found: dict[str, Any] = json.loads(file.read_text())["runs"][0]
        return found
    finally:
        file.unlink(missing_ok=True)


def show(found: dict[str, Any]) -> None:
    if "skipped" in found or "crashed" in found:
        print("not run here:", found.get("skipped") or found.get("crashed"), flush=True)
        return
    print(
        f"{found['events']:,} events, {found['acknowledged']:,} acknowledged adds, {found['seconds']:.0f} s", flush=True
    )
    for name, n in found["counts"].items():
        if name != "plain":
            print(f"    {name:40} {n:,}")
    for name, row in found["recovery_us"].items():
        print(f"    first job after: {name:24} median {row['median'] / 1e3:,.0f} ms, most {row['most'] / 1e3:,.0f} ms")
    print(f"  BROKEN {found['breaches']}{found['excerpt']}" if found["breaches"] else "  nothing broken", flush=True)


def commit() -> str:
    """What is tested; empty outside of a repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def write_page(all_results: list[dict[str, Any]]) -> None:
    """docs/evidence/reliability.json and the page, of one or several results."""
    runs = [
        {k: v for k, v in run.items() if k != "excerpt"} | {"commit": results.get("commit", "")}
        for results in all_results
        for run in results["runs"]
    ]
    runs.sort(key=lambda run: list(FAMILIES).index(run["family"]))
    written = {"machine": all_results[0]["machine"], "runs": runs}
    results_file(ROOT).write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
    render(ROOT)


def _new_file(seed: str) -> Path:
    number = 1
    while (path := RESULTS / f"run-{seed}-{number}.json").exists():
        number += 1
    return path


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt
