"""A minute of mixed faults, the plan, the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos import plan, report
from chaos.families import FAMILIES
from walked import cases

ROOT = Path(__file__).resolve().parents[2]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.chaos", *words]


@pytest.mark.slow
@pytest.mark.parametrize(("minutes", "rate"), [("0.7", "0.1"), pytest.param("1", "0.5", marks=pytest.mark.long)])
def test_mixed_faults_break_no_promise(tmp_path: Path, minutes: str, rate: str) -> None:
    """Promise: Lost; Early; Again; Stale; Attempts; Places; Locks."""
    words = command("--family", "mixed", "--minutes", minutes, "--seed", "43", "--few", "--rate", rate)
    words += ["--json", str(tmp_path / "run.json")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads((tmp_path / "run.json").read_text())["runs"]
    assert run["acknowledged"] > 1000
    assert sum(n for name, n in run["counts"].items() if name.startswith("done: ")) >= 5


@cases("name", FAMILIES)
def test_a_seed_determines_the_plan(name: str) -> None:
    family = FAMILIES[name]
    once, again, other = (plan.steps(family, seed, 50) for seed in ("7", "7", "8"))
    assert once == again
    assert {step.fault for step in once} == set(family.faults)
    assert not family.faults or once != other


def results() -> dict[str, Any]:
    run = {
        "family": "line", "seed": "7", "events": 12_345, "acknowledged": 4_321, "seconds": 61.0, "breaches": {"lost": 2},
        "counts": {"again: released": 5, "again: undone, everysec": 3, "lost: everysec": 4, "done: line_cut": 3},
        "recovery_us": {"line cut": {"times": 3, "median": 1_500, "most": 2_500_000}},
    }  # fmt: skip
    skipped = {"family": "zookeeper", "seed": "7", "skipped": "needs zookeeper"}
    return {"seed": "7", "runs": [run, skipped], "machine": {"processors": 2, "python": "3.11"}}


def test_the_tables_show_the_measured_results() -> None:
    page = "".join(
        f"<!-- chaos: {name} -->\nof yesterday\n<!-- chaos: end -->\n" for name in ("counts", "reasons", "recovery")
    )
    text = report.rendered(page, results())
    assert "| 12,345 | 4,321 | 2 | 4 | 8 | 0 | 0 | 0 | 0 |" in text
    assert "Not run on this machine: `zookeeper` (needs zookeeper)." in text
    assert "| connections cut | 3 | 2 ms | 2.50 s |" in text
    assert "of yesterday" not in text
    assert report.rendered(text, results()) == text


def test_several_runs_of_a_family_are_one_row() -> None:
    again = results()
    again["runs"] = [run | {"commit": "abc"} for run in again["runs"][:1]] + again["runs"]
    table = report.counts(again)
    assert "| 24,690 | 8,642 | 4 | 8 | 16 | 0 | 0 | 0 | 0 |" in table
    assert "1 families in" in table
    assert "commit abc" in table


def test_the_page_matches_the_recorded_results() -> None:
    page = report.page_file(ROOT).read_text()
    assert page == report.rendered(page, json.loads(report.results_file(ROOT).read_text()))
