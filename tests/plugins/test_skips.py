"""The line about skips, and that CI does not put up with one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = """
import pytest

def test_here(): pass

@pytest.mark.parametrize("n", range(3))
def test_elsewhere(n): pytest.skip("needs redis-tools")

@pytest.mark.xfail
def test_known(): assert False
"""


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path, python_command: Path) -> Run:
    def with_page(page: str, **env: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_page.py").write_text(page, encoding="utf-8")
        here = {k: v for k, v in os.environ.items() if k not in ("CI", "PYTEST_ADDOPTS")}
        return subprocess.run(
            [python_command, "-m", "pytest", "-q", "-p", "plugin_skips", "--rootdir", tmp_path, "-c", os.devnull],
            cwd=tmp_path,
            env={**here, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return with_page


def test_one_summary_line_names_missing_requirements(run: Run) -> None:
    done = run(PAGE)
    assert done.returncode == 0
    assert "not run here: needs redis-tools (3 tests)\n" in done.stdout


def test_a_skip_is_a_failure_in_ci(run: Run) -> None:
    done = run(PAGE, CI="true")
    assert done.returncode == 1
    assert "in CI a skip is a failure" in done.stdout


@pytest.mark.parametrize("page", ["import pytest\npytest.skip('needs kazoo', allow_module_level=True)\n"])
def test_a_skipped_module_is_counted(run: Run, tmp_path: Path, page: str) -> None:
    page_of_two = PAGE.replace("needs redis-tools", "needs kazoo")
    (tmp_path / "test_other.py").write_text(page, encoding="utf-8")
    assert "not run here: needs kazoo (4 tests)" in run(page_of_two).stdout


def test_no_summary_line_without_skips(run: Run) -> None:
    done = run("def test_here(): pass\n", CI="true")
    assert done.returncode == 0
    assert "not run here" not in done.stdout
