"""The ranges of the dependencies: the tests run on their newest end, and in `make test-oldest` and `make test-long` the most telling ones
on the oldest: of those whose insides are used for each by itself, then of all together. What changes most often, the server's inside, is
looked at in each run, by name. The rows of `.github/workflows/ci.yml` are these.

The oldest versions are installed beside, into ``build/oldest``; only the first run needs a package index.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from service.test_inside_uvicorn import OF_A_CYCLE, OF_THE_CONNECTION, OF_THE_FLOW, OF_THE_PARSER

ROOT = Path(__file__).parents[2]


class Range(NamedTuple):
    """Dependencies that are installed together in their oldest versions, and what is then run. ``more`` is what those need."""

    names: tuple[str, ...]
    tests: tuple[str, ...]
    more: tuple[str, ...] = ()
    marks: str = "not slow and not otherserver and not long"


OF_CELERY = ("kombu==5.3.4", "vine==5.1.0", "click==8.1.8")
SERVER = ("raw_inputs", "inside_uvicorn", "pipelines", "connections", "upgrade_offers")
RANGES = [
    Range(("uvicorn", "httptools"), tuple(f"tests/service/test_{one}.py" for one in SERVER)),
    Range(
        ("redis",),
        ("tests/connections", "tests/story/test_pop.py", "tests/story/test_settling.py", "tests/worker/test_worker.py"),
    ),
    Range(("httpx",), ("tests/service/test_http_clients.py", "tests/clients")),
    Range(("kazoo",), ("tests/locks",)),
    Range(("typer",), ("tests/programs/test_cli.py", "tests/programs/test_cli_help.py"), ("click==8.1.8",)),
    Range(("celery",), ("tests/frameworks/test_celery.py",), OF_CELERY, "not long"),
]
"""By what knows their insides: tests/names/test_foreign_insides.py, and for uvicorn tests/service/test_inside_uvicorn.py."""
BESIDE = "OLDEST_VERSIONS"
OF_NEWER = ("-W", "ignore:_pytest.python.CallSpec2")
"""The plugin of the oldest anyio is older than the newest pytest."""
INSIDES_OF_UVICORN = {
    "HttpToolsProtocol": OF_THE_CONNECTION,
    "RequestResponseCycle": OF_A_CYCLE,
    "FlowControl": OF_THE_FLOW,
    "httptools.HttpRequestParser": OF_THE_PARSER,
}
LOOK = """
import importlib.metadata, inspect, json, re, sys
from uvicorn.protocols.http import httptools_impl as module
wanted = json.loads(sys.argv[1])
for path, names in wanted.items():
    found = module
    for part in path.split("."):
        found = getattr(found, part)
    source = inspect.getsource(found) if path[0].isupper() else ""  # of C none
    wanted[path] = [name for name in names if not hasattr(found, name) and not re.search(rf"self\\.{name}\\b.*=", source)]
missing = [f"{path}.{name}" for path, names in wanted.items() for name in names]
print(json.dumps([{name: importlib.metadata.version(name) for name in sys.argv[2:]}, missing]))
"""
"""Says which versions these are, and which names are missing: of a class, and of what its methods set."""


def requirements() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [one for several in project["optional-dependencies"].values() for one in several]
    return {one.name: one for one in map(Requirement, [*project["dependencies"], *extras])}


def bounds(name: str) -> dict[str, str]:
    return {each.operator: each.version for each in requirements()[name].specifier}


def oldest(names: tuple[str, ...]) -> dict[str, str]:
    return {name: bounds(name)[">="] for name in names}


EVERY = Range(
    tuple(name for name in requirements() if ">=" in bounds(name)),
    (
        "tests/names/test_foreign_insides.py", "tests/connections", "tests/embedded", "tests/schedules", "tests/story/test_pop.py",
        "tests/service/test_api.py", "tests/service/test_metrics.py", "tests/dashboard/test_access.py", "tests/dashboard/test_lists.py",
        "tests/programs/test_cli.py", "tests/programs/test_cli_help.py", "tests/programs/test_cli_top.py",
        "tests/programs/test_extras.py", "tests/programs/test_otel.py",
    ),
    (*OF_CELERY, "commonmark", "deprecated", "wrapt", "importlib-metadata==7.1.0", "zipp", "opentelemetry-sdk==1.25.0", "opentelemetry-semantic-conventions==0.46b0"),
)  # fmt: skip
"""What somebody gets who asks for the oldest of all."""
ENDS = {one.names[0]: one for one in RANGES} | {"every": EVERY}


def test_every_dependency_has_an_oldest_version() -> None:
    """But tarry itself, which `standard` names, and the time zones of Windows."""
    assert requirements().keys() - {*EVERY.names} == {"tarry", "tzdata"}


@pytest.mark.parametrize("name", [name for one in RANGES for name in one.names])
def test_the_newest_end_is_installed(name: str) -> None:
    """The next version, beyond the bound, is to be looked at first."""
    if name in json.loads(os.environ.get(BESIDE, "{}")):
        return  # this is the run of the test below
    installed, beyond = Version(importlib.metadata.version(name)), Version(bounds(name)["<"])
    assert installed < beyond
    assert beyond.release[:2] in (
        (installed.major, installed.minor + 1),
        (installed.major + 1, 0),
        (installed.major + 1,),
    )


def installed_oldest(names: tuple[str, ...], more: tuple[str, ...] = ()) -> Path:
    """The folder with the oldest versions of these."""
    wanted = [*(f"{name}=={version}" for name, version in oldest(names).items()), *more]
    told = " ".join((*wanted, f"{sys.version_info[1]}"))
    folder = ROOT / "build" / "oldest" / hashlib.sha256(told.encode()).hexdigest()[:16]
    if not (folder / "complete").exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
        ]
        fetched = subprocess.run([*pip, "--target", folder, *wanted], check=False, capture_output=True, text=True)
        if fetched.returncode:
            pytest.skip(f"needs a package index, once ({' '.join(wanted)})")
        (folder / "complete").touch()
    return folder


def run_on_the_oldest(names: tuple[str, ...], tests: tuple[str, ...], more: tuple[str, ...], marks: str) -> None:
    folder = installed_oldest(names, more)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST") and name != "CI"}
    # the tarry beside these tests, also where the venv is that of another checkout
    environment |= {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'src'}", BESIDE: json.dumps(oldest(names))}
    here = Path(__file__).relative_to(ROOT)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", *OF_NEWER, "-vv", "-n", "4", "-p", "no:cacheprovider", "-m", marks, here, *tests],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=900, env=environment,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert not [one for one in tests if f"\n{one}" not in told.stdout], f"none of these has run\n{told.stdout}"


@pytest.mark.slow
def test_the_oldest_server_has_each_name_that_is_used() -> None:
    """Of its inside; what it does with them is told by the tests of the next one."""
    names = RANGES[0].names
    wanted = {name: sorted(some) for name, some in INSIDES_OF_UVICORN.items()}
    words = [sys.executable, "-c", LOOK, json.dumps(wanted), *names]
    environment = os.environ | {"PYTHONPATH": str(installed_oldest(names))}
    told = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    assert told.returncode == 0, told.stderr
    versions, missing = json.loads(told.stdout)
    assert {name: Version(one) for name, one in versions.items()} == {
        name: Version(one) for name, one in oldest(names).items()
    }
    assert missing == []


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_the_oldest_end_passes_the_same_tests(end: str) -> None:
    run_on_the_oldest(*ENDS[end])


def test_the_oldest_end_runs_there() -> None:
    """In the runs above the oldest versions are the ones that are imported."""
    for name, version in json.loads(os.environ.get(BESIDE, "{}")).items():
        assert Version(importlib.metadata.version(name)) == Version(version)
