"""Which test reaches which line of tarry's Python, and which script: what `make mutants` chooses tests by.

A pytest plugin (``pytest -p mutants.reach``), and the reading of what it wrote. One context of coverage for each test; a
script is reached by a test in which a call of it was made.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
FOLDERS = (
    "values scripts schedules service clients locks guarded story connections distributed faults embedded redisson "
    "testing frameworks conformance upgrade worker programs dashboard dialects"
).split()


class Recorder:
    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self.coverage: Any = coverage.Coverage(self.name, source=[str(ROOT / "src" / "tarry")], config_file=False)
        self.coverage.start()
        self.coverage.switch_context("import")
        self.now = ""
        self.called: dict[str, set[str]] = defaultdict(set)
        self.took: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.now = item.nodeid
        self.coverage.switch_context(item.nodeid)

    def pytest_collection_finish(self) -> None:
        from tarry.core.requests import ScriptCall

        make, called = ScriptCall.__init__, self.called

        def noted(call: Any, script: Any, *given: Any, **named: Any) -> None:
            called[script.name].add(self.now)
            make(call, script, *given, **named)

        ScriptCall.__init__ = noted  # type: ignore[method-assign]

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        scripts = {name: sorted(tests) for name, tests in self.called.items()}
        told = {"scripts": scripts, "seconds": self.took}
        Path(self.name + ".json").write_text(json.dumps(told), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(Path(os.environ["REACH"])), "tarry-reach")


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _recorded() -> list[tuple[Any, dict[str, Any]]]:
    found = []
    for folder in FOLDERS:
        if (path := KEPT / folder).exists():
            data = coverage.CoverageData(str(path))
            data.read()
            found.append((data, json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))))
    return found


def tests_of_lines(file: str, first: int, last: int) -> set[str]:
    """The tests that run a statement of these lines; of the whole file, where it runs when it is imported."""
    found: set[str] = set()
    whole: set[str] = set()
    for data, _ in _recorded():
        name = next((name for name in data.measured_files() if name.endswith(f"/src/tarry/{file}")), None)
        by_line = data.contexts_by_lineno(name) if name else {}
        begin = max((line for line in by_line if line <= first), default=first)
        for line, tests in by_line.items():
            whole.update(tests)
            if begin <= line <= last:
                found.update(tests)
    return (found if found - {"import", ""} else whole) - {"import", ""}


def tests_of_scripts(names: set[str]) -> set[str]:
    return {test for _, told in _recorded() for name in names for test in told["scripts"].get(name, [])} - {""}


def seconds() -> Counter[str]:
    """How long each test took."""
    return Counter({test: took for _, told in _recorded() for test, took in told["seconds"].items()})
