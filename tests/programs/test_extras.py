"""The core installs what a producer needs. Here a process cannot import any other package, as if it were not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from doc_pages import ROOT
from only_extras import all_but, command, installed_with
from until import LONGEST_S

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BARE = """
import sys
sys.modules.update(dict.fromkeys({missing!r}))
"""


CORE = set(installed_with(PROJECT["dependencies"]))


def bare(code: str, *extras: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code without the packages of other extras than these."""
    here = {**os.environ, **environment}
    words = [sys.executable, "-c", BARE.format(missing=all_but(*extras)) + code]
    return subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False, env=here)


def test_the_core_has_only_the_dependencies_of_a_producer() -> None:
    of_redis = {"async-timeout"} if sys.version_info < (3, 11, 3) else set()  # asyncio's own has a fault there
    assert {"redis", "hiredis", "msgspec", "platformdirs", "cronsim", *of_redis} == CORE
    reasons = (ROOT / "docs/decisions/0004-dependencies.md").read_text(encoding="utf-8")
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        assert all(f"`{Requirement(one).name}`" in reasons for one in group)


FAULTY = {
    "starlette": "1.3.0",  # CVE-2026-54283; CVE-2026-54282, CVE-2026-48710, CVE-2025-62727 and CVE-2025-54121 were mended before
    "h11": "0.15.0",  # CVE-2025-43859
    "anyio": "4.14.1",  # CVE-2026-63349
    "jinja2": "3.1.5",  # CVE-2025-27516
    "pygments": "2.19.2",  # CVE-2026-4539
    "redis": "4.5.4",  # CVE-2023-28859
    "celery": "5.2.1",  # CVE-2021-23727
    "uvicorn": "0.11.6",  # CVE-2020-7695
}
"""The newest version with a known fault, of each dependency that has had one."""


def test_tarry_django_says_that_it_needs_django() -> None:
    """It has no extra: a project that uses it has a Django."""
    code = "sys.modules.update(dict.fromkeys(['asgiref', 'asgiref.sync', 'django', 'django.conf']))\nfrom tarry.django import worker"
    done = bare(code)
    assert done.stderr.endswith("MissingExtra: tarry.django needs Django: pip install django.\n")


def test_no_dependency_may_be_a_version_with_a_known_fault() -> None:
    groups = (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    found = [Requirement(one) for group in groups for one in group]
    assert {one.name for one in found} >= set(FAULTY)
    assert not [str(one) for one in found if one.name in FAULTY and one.specifier.contains(FAULTY[one.name])]


def test_a_service_without_httptools_says_so_and_takes_no_other_parser() -> None:
    """uvicorn would take h11, which has none of the service's limits."""
    code = """
import sys
sys.modules["httptools"] = None
from tarry.errors import MissingExtra
from tarry.programs.service import http_server
from tarry.programs.service.app import ServiceApp
from tarry.programs.service.settings import ServiceSettings
try:
    http_server.require_extra()
except MissingExtra as fault:
    print(fault)
try:
    http_server.make_server(ServiceApp(ServiceSettings(namespaces=()), None))
except ImportError as fault:
    print("ImportError")
"""
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.stdout.splitlines() == [
        "The service needs more than the library: pip install 'tarry[http]'.",
        "ImportError",
    ]


def test_a_producer_and_a_worker_run_on_the_core(valkey_url: str) -> None:
    done = bare(
        """
import asyncio, os, signal, tarry

async def main(url, space):
    async with tarry.AsyncClient(url, namespace=space) as client:
        await client.topic("orders").add(1)
        await client.schedules.put("orders", "tidy", 1, cron="0 9 * * *")

url, space = os.environ["TARRY_URL"], f"core-{os.getpid()}"
worker = tarry.Worker(url=url, namespace=space)

@worker.on("orders")
def close(job):
    print("closed", job.body)
    os.kill(os.getpid(), signal.SIGTERM)

with tarry.Client(url, namespace=space) as client:
    client.topic("orders").add(2, delay="1h")
asyncio.run(main(url, space))
asyncio.run(worker.run())
""",
        TARRY_URL=valkey_url,
    )
    assert (done.returncode, done.stdout) == (0, "closed 1\n"), done.stderr


PARTS = {
    "http": "tarry.HTTPClient().topic('orders').add(1)",
    "zookeeper": "import tarry.zookeeper",
    "otel": "import tarry.otel",
    "celery": "import tarry.celery",
    "embedded": "tarry.Client('embedded://').topic('orders').add(1)",
}


@pytest.mark.parametrize("extra", PARTS)
def test_a_missing_extra_raises_an_import_error_that_names_it(extra: str, tmp_path: Path) -> None:
    code = f"""
import json, tarry
try:
    {PARTS[extra]}
except ImportError as fault:
    print(json.dumps([str(fault), fault.code]))
"""
    done = bare(code, PATH="", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    message, word = json.loads(done.stdout)
    assert f"pip install 'tarry[{extra}]'" in message
    assert word == "missing_extra"


def test_the_dashboard_names_its_extra() -> None:
    done = bare("from tarry.programs.dashboard import Dashboard")
    assert "MissingExtra: The dashboard needs more than the library: pip install 'tarry[http]'." in done.stderr


@pytest.mark.parametrize("words", [[], ["--help"], ["add", "orders", "1"], ["worker", "app:worker"]])
def test_the_command_line_without_its_extra_fails_with_one_line(words: list[str]) -> None:
    done = bare(f"sys.argv = ['tarry', *{words!r}]; from tarry.programs.cli import main; main()")
    assert done.returncode == 3
    assert done.stderr == (
        "error: The command line needs more than the library: pip install 'tarry[cli]'. [missing_extra]\n"
    )


def test_the_service_without_its_extra_fails_with_one_line(tmp_path: Path) -> None:
    words = [command(tmp_path / "bin", "cli"), "serve", "--port", "0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "error: The service needs more than the library: pip install 'tarry[http]'. [missing_extra]\n"
    )


def test_the_standard_extra_has_all_that_needs_nothing_else() -> None:
    assert all_but("standard") == all_but("cli", "embedded", "http", "zookeeper")


CELERY_RELAY = "error: tarry.celery needs Celery: pip install 'tarry[celery]'. [missing_extra]\n"


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("--help", 0, ""),
        ("--version", 0, ""),
        ("lst", 2, "No such command 'lst'"),
        ("celery-relay", 3, CELERY_RELAY),
    ],
)
def test_only_the_command_that_needs_celery_asks_for_it(word: str, code: int, message: str) -> None:
    done = bare(f"sys.argv = ['tarry', {word!r}]; from tarry.programs.cli import main; main()", "cli")
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert ("pip install" in done.stderr) == (word == "celery-relay")
