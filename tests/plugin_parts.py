"""How long each part of a run took, and its ten slowest tests, in its last lines; what runs beside the tests; and how much processor
time all of it took. An issue states this sum before and after (CONTRIBUTING.md).

    --beside "make lint types"     starts with the tests, its output stands at the end; where it fails, so does the run

A part is a folder of tests. Its seconds are those of its tests one after the other, whatever ran beside them.
"""

from __future__ import annotations

import resource
import shlex
import subprocess
import tempfile
import time
from collections import Counter
from typing import IO

import pytest

SLOWEST = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--beside", default="", help="a command that runs beside the tests, and must end well, too")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Parts(config.getoption("--beside")), "tarry-parts")


class Parts:
    """Kept by the process that hears of all tests."""

    def __init__(self, command: str) -> None:
        self.took: Counter[str] = Counter()
        self.began = time.monotonic()
        self.command = command
        self.beside: subprocess.Popen[bytes] | None = None
        self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the run lasts
        self.beside_s = 0.0

    def pytest_sessionstart(self) -> None:
        if self.command:
            self.beside = subprocess.Popen(shlex.split(self.command), stdout=self.said, stderr=subprocess.STDOUT)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] += report.duration
        self._look()

    def _look(self) -> None:
        if self.beside is not None and not self.beside_s and self.beside.poll() is not None:
            self.beside_s = time.monotonic() - self.began

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.beside is not None and self.beside.wait() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._look()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        if self.beside is not None:
            self.said.seek(0)
            write(self.said.read().decode("utf-8", "replace").rstrip())
            how = f"failed with {self.beside.returncode}" if self.beside.returncode else "passed"
            write(f"{self.beside_s:7.1f} s  {self.command}: {how}", red=bool(self.beside.returncode))
        self.said.close()
        if len(self.took) <= SLOWEST:
            return
        parts: Counter[str] = Counter()
        tests: Counter[str] = Counter()
        for test, seconds in self.took.items():
            part = "/".join(test.split("::")[0].split("/")[:-1])
            parts[part] += seconds
            tests[part] += 1
        for part, seconds in parts.most_common():
            write(f"{seconds:7.1f} s  {part}: {tests[part]} tests")
        write(f"the {SLOWEST} slowest:")
        for test, seconds in self.took.most_common(SLOWEST):
            write(f"{seconds:7.1f} s  {test}")
        write(f"{processor_s():7.1f} s  of processor time")


def processor_s() -> float:
    """Of this process and of all that have ended: tests, servers, what ran beside."""
    who = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in who)
