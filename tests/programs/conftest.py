"""Fixtures of the programs: a client with a namespace of its own, and the command line as a process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from warm import WarmTarry


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
