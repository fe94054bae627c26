"""The results of the runs as tables, between the markers of docs/evidence/reliability.md. No number on that page is written by hand."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from .families import FAMILIES
from .judge import BREACHES

EARLY, STALE = ("early",), ("stale accepted", "late accepted", "twice accepted", "refused")
LOST = ("lost",)
HEAD = (
    "| fault | promised | events | acknowledged adds | lost | lost as promised | handed out again | without a reason | early "
    "| stale accepted | other breaches |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)
AGAIN = ("doubled", "ran anew", "after finish", "after delete")


def results_file(root: Path) -> Path:
    return root / "docs" / "evidence" / "reliability.json"


def page_file(root: Path) -> Path:
    return root / "docs" / "evidence" / "reliability.md"


def render(root: Path) -> None:
    """Puts the tables into the page."""
    page_file(root).write_text(rendered(page_file(root).read_text(), json.loads(results_file(root).read_text())))


def rendered(page: str, results: dict[str, Any]) -> str:
    for name, make in (("counts", counts), ("reasons", reasons), ("recovery", recovery)):
        between = re.compile(rf"(<!-- chaos: {name} -->\n).*?(<!-- chaos: end -->)", re.S)
        assert between.search(page), f"the page has no marker for {name}"
        page = between.sub(rf"\g<1>{make(results)}\g<2>", page)
    return page


def ran(results: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in results["runs"] if "events" in run and "crashed" not in run]


def counts(results: dict[str, Any]) -> str:
    rows, total = [], [0] * 9
    for name, runs in groupby(ran(results), itemgetter("family")):
        numbers = [sum(column) for column in zip(*map(_numbers, runs), strict=True)]
        total = [have + more for have, more in zip(total, numbers, strict=True)]
        family = FAMILIES[name]
        rows.append(f"| `{family.name}`: {family.fault} | {family.promise} | {_cells(numbers)} |")
    rows.append(f"| **all** | | {_cells(total)} |")
    skipped = [
        f"`{run['family']}` ({run.get('skipped') or run.get('crashed')})"
        for run in results["runs"]
        if run not in ran(results)
    ]
    said = f"\nNot run on this machine: {', '.join(skipped)}.\n" if skipped else ""
    machine = results["machine"]
    seconds = sum(run["seconds"] for run in ran(results))
    seeds = ", ".join(sorted({str(run["seed"]) for run in ran(results)}))
    commits = ", ".join(sorted({run["commit"] for run in ran(results) if run.get("commit")}))
    head = (
        f"Seed {seeds}; {len(rows) - 1} families in {seconds / 60:.0f} minutes, {machine['processors']} processors, "
        f"Python {machine['python']}{', commit ' + commits if commits else ''}.\n\n"
    )
    return head + HEAD + "\n".join(rows) + "\n" + said


def _numbers(run: dict[str, Any]) -> list[int]:
    breaches, found = run["breaches"], run["counts"]

    def broken(*names: str) -> int:
        return sum(breaches.get(name, 0) for name in names)

    rest = [name for name in BREACHES if name not in (*LOST, *AGAIN, *EARLY, *STALE)]
    return [
        run["events"],
        run["acknowledged"],
        broken(*LOST),
        sum(n for name, n in found.items() if name.startswith(("lost: ", "taken by"))),
        sum(n for name, n in found.items() if name.startswith(("again: ", "add repeated"))),
        broken(*AGAIN),
        broken(*EARLY),
        broken(*STALE),
        broken(*rest),
    ]


def _cells(numbers: list[int]) -> str:
    return " | ".join(f"{number:,}" for number in numbers)


REASONS = {
    "again: time to run over": "its time to run was over, because its consumer was dead, frozen, cut off, or too slow",
    "again: released": "its consumer released it",
    "again: handler raised": "its handler raised, snoozed, or was stopped",
    "again: kicked": "it was dead, and was kicked",
    "again: its process ended": "its consumer's process was killed or stopped, and the parent process released it at once",
    "again: its worker was cut off": "all connections of its worker had ended, and the worker had not noticed it, or not connected again yet",
    "add repeated": "the add's answer was lost, the add was repeated, and the job had been finished meanwhile",
    "again: undone": "the server had lost the record that the job was handed out or finished, which the server's promise allows",
    "undone": "an acknowledged finish, delete or hand-out was lost by the server, which the server's promise allows",
    "lost": "an acknowledged add was lost by the server, which the server's promise allows",
    "late told ok": "a finish that came too late was repeated after its connection broke, and the repetition was answered *ok*; it changed nothing",
    "told refused, sent twice": "a delete, release, bury, reschedule or kick was repeated after a connection broke, and refused or found nothing, "
    "because the first try may have done it",
    "attempts nobody saw": "an attempt was used up by a pop whose answer was lost",
    "taken by who did not live to tell": "a process was killed after it had polled an item of a guarded queue",
    "refused, its time to run over": "a receipt was refused, because the time to run was over",
    "refused, settled or deleted before": "a receipt was refused, because the job was settled, deleted, or handed out again",
}


def reasons(results: dict[str, Any]) -> str:
    total: dict[str, int] = defaultdict(int)
    for run in ran(results):
        for name, n in run["counts"].items():
            known = (
                name
                if name in REASONS
                else name.partition(",")[0]
                if name.startswith("again")
                else name.partition(":")[0]
            )
            if known in REASONS:
                total[known] += n
    rows = [f"| {words} | {total[name]:,} |" for name, words in REASONS.items()]
    return "| reason | how often |\n|---|--:|\n" + "\n".join(rows) + "\n"


AFTER = {
    "half-open": "connection half open",
    "half-open, 7 s later": "connection half open, counted from 7 s later",
    "minder frozen": "deleting and rescheduling client frozen",
    "one of another version": "process replaced by another version",
    "tail torn": "end of the append-only file torn off",
    "line cut": "connections cut",
    "line refused": "connections refused",
    "line reset": "connections reset",
    "line slow": "connections delayed",
}
"""Names of faults that a reader does not know."""


def recovery(results: dict[str, Any]) -> str:
    rows: dict[str, list[dict[str, int]]] = defaultdict(list)
    for run in ran(results):
        for name, row in run["recovery_us"].items():
            rows[name].append(row)
    lines = []
    for name in sorted(rows, key=lambda name: AFTER.get(name, name)):
        times = sum(row["times"] for row in rows[name])
        middle = max(row["median"] for row in rows[name])
        most = max(row["most"] for row in rows[name])
        lines.append(f"| {AFTER.get(name, name)} | {times:,} | {_time(middle)} | {_time(most)} |")
    return "| after | times | median | longest |\n|---|--:|--:|--:|\n" + "\n".join(lines) + "\n"


def _time(us: int) -> str:
    return f"{us / 1e6:.2f} s" if us >= 1e6 else f"{us / 1e3:.0f} ms"
