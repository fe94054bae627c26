"""A run says at its end what took how long; what runs beside the tests must end well, too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from plugin_parts import processor_s

HERE = str(Path(__file__).parents[1])
TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(11))
    def test_it(number):
        assert number < 11
"""


@pytest.mark.parametrize(("processes", "code", "said"), [("0", 0, "passed"), ("2", 3, "failed with 3")])
def test_parts_are_reported_and_a_failing_side_command_fails_the_run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    run_pytest: Callable[..., pytest.RunResult],
    processes: str,
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    beside = f"{sys.executable} -c 'print(\"looked\"); raise SystemExit({code})'"
    words = ("-p", "plugin_processes", "-n", processes, "-p", "plugin_parts", "--beside", beside)
    ran = run_pytest(*words)
    assert ran.ret == bool(code)
    ran.stdout.fnmatch_lines(
        ["looked", f"*{said}", "*: 11 tests", "the 10 slowest:", "*of processor time", "*11 passed in*"]
    )


def test_the_processor_time_of_what_was_started_counts() -> None:
    before = processor_s()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert processor_s() - before >= 0.3
