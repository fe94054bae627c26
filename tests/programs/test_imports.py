"""What a start imports: numbers of modules, which do not depend on the machine as times do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache

import pytest

import tarry

MORE = 5
"""A start may import this many more modules of tarry than when it was counted, before somebody says why."""
MOST_OF_A_CLIENT = 57
"""Modules that a blocking client's first add may import besides redis-py and Python's own, of which each version has others: three of
msgspec's in 3.11. 60 is the bound of all."""
HEAVY = {
    "asyncio",
    "celery",
    "http",
    "opentelemetry",
    "pydantic",
    "redis",
    "rich.console",
    "ssl",
    "starlette",
    "zoneinfo",
}
"""What takes long to import."""
DRIVER = {"asyncio", "redis", "ssl"}
"""redis-py imports the other two."""
COUNT = """
import json, sys
{}
print(json.dumps([name for name, module in sys.modules.items() if module is not None]))
"""
CALL = """
import contextlib, io
sys.argv = ["tarry", *{words!r}]
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    from tarry.programs.cli import run
    assert run() == {code}
"""


@pytest.fixture(autouse=True)
def no_redisson(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application without Java has no such variable."""
    monkeypatch.delenv("TARRY_REDISSON")


def imported(code: str) -> set[str]:
    """The modules of a new process that ran the code."""
    place = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # without the tests' own sitecustomize
    words = [sys.executable, "-c", COUNT.format(code)]
    done = subprocess.run(words, env=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@cache
def imported_by_redis() -> set[str]:
    return imported("import redis")


def own(found: set[str]) -> int:
    return sum(name.partition(".")[0] == "tarry" for name in found)


def test_the_package_imports_nothing_but_itself() -> None:
    found = imported("import tarry")
    assert own(found) == 1
    assert not found & HEAVY


def test_a_blocking_client_imports_what_topics_need(valkey_url: str, namespace: str) -> None:
    alone = imported_by_redis()
    code = f"import tarry\nwith tarry.Client({valkey_url!r}, namespace={namespace!r}) as client: client.topic('orders').add(1)"
    found = imported(code)
    others = {name for name in found - alone if name.partition(".")[0] not in sys.stdlib_module_names}
    assert len(others) <= MOST_OF_A_CLIENT, sorted(others)
    assert not (found - alone) & HEAVY


@pytest.mark.parametrize(
    ("words", "modules", "heavy"),
    [
        ("--version", 4, set[str]()),
        ("--help", 35, set[str]()),
        ("list orders", 61, DRIVER),
        ("stats", 62, DRIVER),
        ("add orders 1", 54, DRIVER),
        ("doctor", 69, DRIVER),
    ],
)
def test_a_command_imports_what_it_needs(
    client: tarry.Client, valkey_url: str, namespace: str, words: str, modules: int, heavy: set[str]
) -> None:
    client.topic("orders").add(1)
    place = [] if words.startswith("--") else ["--url", valkey_url, "--namespace", namespace]
    code = int(words == "doctor")  # the tests' server loses jobs
    found = imported(CALL.format(words=[*place, *words.split()], code=code))
    assert own(found) <= modules + MORE
    assert found & HEAVY == heavy
    assert ("typer" in found) == (words != "--version")


@pytest.mark.parametrize(("start", "modules"), [("worker_process", 113), ("run_child", 112)])
def test_a_worker_and_its_child_import_no_queues_and_no_service(start: str, modules: int) -> None:
    found = imported(f"import tarry.worker.{start}")
    assert own(found) <= modules + MORE
    assert not [
        name
        for name in found
        if name.startswith(("tarry.verbs.redisson", "tarry.verbs.redisson.delayed", "tarry.programs.serv"))
    ]
    assert not (found - imported_by_redis()) & (HEAVY - {"zoneinfo"})


def test_a_service_imports_no_other_protocol_until_it_is_asked_for() -> None:
    """Those of SQS and of beanstalkd."""
    found = imported("import tarry.programs.service.app, tarry.programs.cli")
    assert not [name for name in found if "sqs" in name or "beanstalk" in name]
