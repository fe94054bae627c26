"""Fixtures of the worker: a client with a namespace of its own, the command line, and worker processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from programs.conftest import answers, cli, client  # noqa: F401  # fixtures
from warm import WarmProcess, WarmTarry
from warm_children import started

HIRED = Path(__file__).parent / "worker_process.py"


class WorkerProcess:
    """A worker process and what it wrote down."""

    def __init__(self, path: Path, process: WarmProcess) -> None:
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
def start_worker(
    valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts a worker process: ``start_worker("slow", ttr="2s", grace="5s")``."""
    started: list[WorkerProcess] = []

    def start(mode: str, *, ttr: str = "15s", grace: str = "10s", url: str = valkey_url) -> WorkerProcess:
        path = tmp_path / f"journal-{len(started)}"
        process = tarry_command.start_program(HIRED, url, namespace, str(path), ttr, grace, mode)
        started.append(WorkerProcess(path, process))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


@pytest.fixture(scope="module")
def warm_children() -> Iterator[None]:
    """The children of a worker in this process, which run functions, need not import anything."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "_fork_exec", started(stack).fork_exec)
        yield
