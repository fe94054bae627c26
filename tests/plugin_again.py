"""A failure is named at once. With ``--again``, what failed in the run is tried twice more at its end, alone.

A test that passes both times is unsteady: its outputs stand in the last lines, with the line for ``tests/unsteady.txt``. In CI the run
passes then, unless more than three are unsteady; elsewhere it fails. A test that fails again is broken.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import unsteady

MOST_UNSTEADY = 3
MOST_TRIED = 10
"""If more tests fail, something is broken, and to try them all would take longer than the run."""
LONGEST = 12_000
"""Characters shown of an output: its end says most."""
PYTHON = sys.executable
"""What tries a test again."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--again", action="store_true", help="try twice more, at the end, what failed")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Again(config), "tarry-again")


class Again:
    """Kept by the process that hears of all tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failed: dict[str, str] = {}
        self.uncollected = False
        self.unsteady: dict[str, list[str]] = {}
        self.broken: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.uncollected |= report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            said = "\n".join([report.longreprtext, *(f"--- {name} ---\n{text}" for name, text in report.sections)])
            self.failed[report.nodeid] = f"{self.failed.get(report.nodeid, '')}{said}\n"
            when = "" if report.when == "call" else f" ({report.when})"
            self._write(f"FAILED {report.nodeid}{when}")

    def _write(self, line: str) -> None:
        """Even if the run is ended before its summary."""
        if terminal := self.config.pluginmanager.get_plugin("terminalreporter"):
            if self.config.get_terminal_writer().width_of_current_line:
                terminal.write_line("")
            terminal.write_line(line, red=True)
            terminal.flush()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """After the processes of the run have ended, before others say that it failed for a reason of theirs."""
        if not self.config.getoption("--again") or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        for test in list(self.failed)[:MOST_TRIED]:
            outputs = []
            for _ in range(2):
                done = self._run(test)
                outputs.append(done.stdout)
                if done.returncode:
                    self.broken.append(test)
                    break
            else:
                self.unsteady[test] = outputs
        many = len(self.unsteady) > MOST_UNSTEADY or len(self.failed) > MOST_TRIED
        if os.environ.get("CI") == "true" and not self.broken and not self.uncollected and not many and self.failed:
            session.exitstatus = pytest.ExitCode.OK

    def _run(self, test: str) -> subprocess.CompletedProcess[str]:
        self._write(f"again, alone: {test}")
        here = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        return subprocess.run(
            [PYTHON, "-m", "pytest", "-rP", "--rootdir", str(self.config.rootpath), test],
            cwd=self.config.rootpath,
            env=here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        for test in self.broken:
            write(f"broken: {test} failed alone, too", red=True)
        if (self.unsteady or self.broken) and len(self.failed) > MOST_TRIED:
            write(f"{len(self.failed) - MOST_TRIED} more failed, and were not tried again", red=True)
        for test, outputs in self.unsteady.items():
            write(f"unsteady: {test} failed in the run, and passed twice alone", red=True)
            for title, said in zip(("in the run", "alone", "alone again"), (self.failed[test], *outputs), strict=True):
                write(f"--- {title}: {test}")
                write(said[-LONGEST:].rstrip())
        if self.unsteady:
            commit = unsteady.git("rev-parse", "--short=12", "HEAD", root=self.config.rootpath) or "?"
            write(f"add to {unsteady.LIST}, with your next change:", red=True)
            for test in self.unsteady:
                write(str(unsteady.Line(test, commit)), red=True)
            if len(self.unsteady) > MOST_UNSTEADY:
                write(f"more than {MOST_UNSTEADY} are unsteady: the run failed", red=True)
