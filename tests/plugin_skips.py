"""Summarizes skips in one line; in CI a skip is a failure.

A test that lacks something skips with the reason ``needs <package>``; the run then ends with

    not run here: needs redis-tools (12 tests)

In CI (``CI=true``) everything is installed, so there a skip means that the suite quietly tests less than it says.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_skips = pytest.StashKey[Counter[str]]()
IN_CI = os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_skips] = Counter()
    config.pluginmanager.register(_Recorder(config.stash[_skips]), "tarry-skips")


class _Recorder:
    """Counts the skips by their reason, those of whole modules too."""

    def __init__(self, skips: Counter[str]) -> None:
        self.skips = skips

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skips[_reason(report)] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skips[_reason(report)] += 1


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if IN_CI and session.config.stash[_skips] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skips = config.stash[_skips]
    if not skips:
        return
    told = ", ".join(f"{reason} ({n} {'test' if n == 1 else 'tests'})" for reason, n in sorted(skips.items()))
    terminalreporter.write_line(f"not run here: {told}", yellow=not IN_CI, red=IN_CI)
    if IN_CI:
        terminalreporter.write_line("in CI a skip is a failure: install it in .ci/packages", red=True)
