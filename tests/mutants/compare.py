"""Does a change of the tests leave anything unnoticed? New faults are drawn, and the tests of two commits are asked about each.

    python -m mutants.compare --seed 45 --before COMMIT               in tests; draws 60 faults, 20 of them in lines of the last 30 days
    python -m mutants.compare --seed 45 --before COMMIT --minutes 15  no new fault is begun after a quarter of an hour
    python -m mutants.compare --seed 45                               goes on, or only prints the verdicts once all are there

The record is build/compared/SEED.json: both commits, the faults, each verdict as soon as it is known. So a run may be interrupted at
any moment, and the next one with this seed continues. The tests of the later commit (HEAD at the first call) are asked about all faults first; then
those of COMMIT, beginning with the faults that survived, for only there a verdict can be worse, and with the test that noticed the others.
The last lines list both verdicts of each fault. It ends with 0 if all are known and none is worse, with 1 if one is worse, and with 2 if some
are missing.

First it is recorded which test of the working tree reaches what: seven minutes for two quiet cores, once (.mutants). Then a fault takes 25 seconds,
one that survives three minutes: three hours for 60 faults and both commits. Its tests wait for most of that time, so begin more runs with
this seed once the first has recorded: they share the work, and eight need three quarters of an hour. A test that is `long` is not asked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import tomllib
from datetime import datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from mutants.__main__ import ROOT, Tree, locked
from mutants.draw import LIST, drawn

FOLDER = ROOT / "build" / "compared"
COLUMNS = ("after", "before")
MANY, YOUNG, DAYS = 60, 20, 30


def new_faults(seed: int, before: str) -> dict[str, dict[str, str]]:
    """By name. Their text stands in the earlier commit, too, and they are in no list."""
    known = {(one["file"], one["old"], one["new"]) for one in tomllib.loads(LIST.read_text("utf-8")).values()}
    since = f"{datetime.now(timezone.utc) - timedelta(days=DAYS):%Y-%m-%d}"
    faults: list[dict[str, str]] = []
    for age, many in ((since, YOUNG), ("", MANY - YOUNG)):
        fresh = (one for one in drawn(seed, age, before) if tuple(one.values()) not in known and one not in faults)
        faults += list(islice(fresh, many))
    return {f"{'young' if at < YOUNG else 'drawn'}-{at + 1:02}": fault for at, fault in enumerate(faults)}


def left(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Columns and faults without a verdict, in the order in which they are tried."""
    verdicts = record["verdicts"]
    names = sorted(record["faults"], key=lambda name: bool(verdicts.get(name, {}).get("after", {}).get("by")))
    return [(column, name) for column in COLUMNS for name in names if column not in verdicts.get(name, {})]


def table(record: dict[str, Any]) -> tuple[str, int]:
    """A line for each fault, and the code that the program ends with."""
    lines, worse = [], 0
    for name, fault in record["faults"].items():
        row = record["verdicts"].get(name, {})
        said = {column: row[column]["by"] or "SURVIVED" if column in row else "?" for column in COLUMNS}
        is_worse = said["after"] == "SURVIVED" and said["before"] not in ("SURVIVED", "?")
        worse += is_worse
        lines.append(f"{'WORSE ' if is_worse else ''}{name} {fault['file']}: {said['before']} -> {said['after']}")
    missing = len(left(record))
    lines.append(f"{len(record['faults'])} faults: {worse} verdicts worse, {missing} missing")
    return "\n".join(lines), 1 if worse else 2 if missing else 0


def main() -> int:
    asked = argparse.ArgumentParser(
        prog="python -m mutants.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    asked.add_argument("--seed", type=int, required=True)
    asked.add_argument("--before", default="", help="the earlier commit; needed at the first call")
    asked.add_argument("--minutes", type=float, default=float("inf"), help="begin no fault after so many")
    given = asked.parse_args()
    path, began = FOLDER / f"{given.seed}.json", time.monotonic()
    if path.exists():
        record = read(path)
        if given.before and commit(given.before) != record["before"]:
            asked.error(f"{path} compares with {record['before']}: take another seed, or delete it")
    elif given.before:
        before = commit(given.before)
        record = {"before": before, "after": commit("HEAD"), "faults": new_faults(given.seed, before), "verdicts": {}}
        write(path, record)
    else:
        asked.error("--before names the earlier commit")
    for column in COLUMNS:
        if not any(one == column for one, _ in left(record)):
            continue
        with tempfile.TemporaryDirectory(prefix="tarry-mutants-", dir="/tmp", ignore_cleanup_errors=True) as made:
            tree = Tree(Path(made), record[column])
            for name in [name for one, name in left(record) if one == column]:
                if time.monotonic() - began > 60 * given.minutes:
                    break
                with locked(path.with_name(f"{path.stem}-{column}-{name}")) as is_mine:
                    row = read(path)["verdicts"].get(name, {})
                    if not is_mine or column in row:  # a run beside this one tries it, or has tried it
                        continue
                    known = [verdict["by"] for verdict in row.values() if verdict["by"]]
                    verdict = tree.judge(record["faults"][name], known, [])
                    store(path, name, column, verdict)
                print(f"{column} {name}: {verdict}", flush=True)
        record = read(path)
    text, code = table(record)
    print(text)
    return code


def commit(revision: str) -> str:
    words = ["git", "rev-parse", "--verify", f"{revision}^{{commit}}"]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


def store(path: Path, name: str, column: str, verdict: dict[str, Any]) -> None:
    with locked(path.with_suffix(".lock"), waits=True):
        record = read(path)
        record["verdicts"].setdefault(name, {})[column] = verdict
        write(path, record)


def write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    raise SystemExit(main())
