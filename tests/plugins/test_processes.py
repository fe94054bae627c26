"""Several processes run what one has collected; crashes are in test_hangs.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HERE = str(Path(__file__).parents[1])
FIXTURE = """
    import os, pytest

    @pytest.fixture(scope="session")
    def process():
        yield os.getpid()
        raise ValueError("not taken down")
"""
FILE = """
    import pytest

    @pytest.mark.parametrize("number", range(3))
    def test_one(process, number):
        with open(__name__, "a") as file:
            file.write(f"{process}\\n")
        assert number != 1, "the second"
"""
PORTS = """
    import os
    import servers

    def test_the_band_is_its_own():
        (port,) = servers.free_ports(1)
        assert (port - servers.PORTS.start) % servers.BANDS == int(os.environ["TESTS_PROCESS"])
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, run_pytest: Callable[..., pytest.RunResult]
) -> Callable[..., pytest.RunResult]:
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(FIXTURE)
    pytester.makepyfile(test_a=FILE, test_b=FILE)
    return lambda *words: run_pytest("-p", "plugin_processes", *words)


def test_a_file_stays_in_one_process_and_a_fixture_that_fails_at_its_end_is_reported(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    ran = run("-n", "2")
    pids = [set((pytester.path / name).read_text().splitlines()) for name in ("test_a", "test_b")]
    assert [len(one) for one in pids] == [1, 1]
    ran.assert_outcomes(passed=4, failed=2, errors=len(pids[0] | pids[1]))
    ran.stdout.fnmatch_lines(["ERROR *end of process * - ValueError: not taken down"])


def test_a_run_that_shall_end_at_its_first_failure_ends(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    ran = run("-n", "1", "-x")
    assert ran.ret == pytest.ExitCode.TESTS_FAILED
    ran.stdout.fnmatch_lines(["*the second", "*stopping after*"])
    assert not (pytester.path / "test_b").exists()


def test_each_process_has_ports_of_its_own(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    for file in pytester.path.glob("*.py"):
        file.unlink()
    pytester.makepyfile(**{f"test_{name}": PORTS for name in "abc"})
    run("-n", "3").assert_outcomes(passed=3)
