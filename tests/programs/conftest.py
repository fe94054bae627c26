"""Fixtures of the programs: a client with a namespace of its own, and the command line as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from warm import WarmTarry

HIRED = Path(__file__).parent / "worker_process.py"


@pytest.fixture
def client(valkey_url: str, namespace: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url, namespace=namespace) as client:
        yield client


@pytest.fixture
def cli(
    valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls ``tarry`` with some words, in a process of its own."""

    def call(*words: str, stdin: str | None = None, url: str = valkey_url) -> subprocess.CompletedProcess[str]:
        place = {"TARRY_URL": url, "TARRY_NAMESPACE": namespace, "TARRY_LOG": "ERROR"}
        return tarry_command.run(words, stdin, place, tmp_path)

    return call


@pytest.fixture
def answers(cli: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., list[Any]]:
    """Calls it with ``--json``; answers what it said, line by line, when all went well."""

    def call(*words: str, code: int = 0, **more: Any) -> list[Any]:
        done = cli(*words, "--json", **more)
        assert done.returncode == code, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return call


class WorkerProcess:
    """A worker process and what it wrote down."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self.path = path
        self.process = process

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def taken(self) -> list[str]:
        return [line for line in self.lines if line.startswith("taken")]

    def closed(self) -> list[str]:
        return [line.partition(" ")[2] for line in self.lines if line.startswith("closed")]


@pytest.fixture
def start_worker(valkey_url: str, namespace: str, tmp_path: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts a worker process: ``start_worker("slow", ttr="300ms", grace="5s")``."""
    started: list[WorkerProcess] = []

    def start(mode: str, *, ttr: str = "15s", grace: str = "10s", url: str = valkey_url) -> WorkerProcess:
        path = tmp_path / f"journal-{len(started)}"
        words = [sys.executable, str(HIRED), url, namespace, str(path), ttr, grace, mode]
        started.append(WorkerProcess(path, subprocess.Popen(words)))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
