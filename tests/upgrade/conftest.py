"""Processes of two versions of tarry on one real server: the one that is tested, and an older commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from upgrade.older import NoHistory, unpacked

HERE = Path(__file__).parent


class Refused(Exception):
    """What a hand's tarry raised: the error's name, and its words."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name
        self.says = says


class VersionProcess:
    """A process that has one version, and does what it is told."""

    def __init__(self, version: str, url: str, place: Path | None) -> None:
        self.version = version
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "command_process.py"), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(place),
        )
        self.file = Path(self.end())

    def __repr__(self) -> str:
        return self.version

    def __call__(self, told: str) -> Any:
        self.begin(told)
        return self.end()

    def begin(self, told: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": told}) + "\n")
        self.process.stdin.flush()

    def end(self) -> Any:
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        if "error" in said:
            raise Refused(said["error"], said["says"])
        return said["answer"]

    def refused(self, told: str) -> str:
        """The name of the error that comes of it."""
        with pytest.raises(Refused) as raised:
            self(told)
        return raised.value.name

    def stop(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait()


def environment(place: Path | None) -> dict[str, str]:
    """That of a process whose tarry lies at ``place``; ``None``: the one that is tested."""
    return {**os.environ, "PYTHONPATH": str(place)} if place else {**os.environ, "PYTHONPATH": ""}


@pytest.fixture(scope="session")
def older_place() -> Path:
    """Where the older version is unpacked, beside the one that is tested; both have the same dependencies."""
    try:
        return unpacked()
    except NoHistory as fault:
        pytest.skip(str(fault))


@contextmanager
def version_starter(url: str, older_place: Path) -> Iterator[Callable[[str], VersionProcess]]:
    started: list[VersionProcess] = []

    def start(version: str) -> VersionProcess:
        hand = VersionProcess(version, url, older_place if version == "older" else None)
        started.append(hand)
        assert hand.file.is_relative_to(older_place) == (version == "older")
        return hand

    yield start
    for hand in started:
        hand.stop()


@pytest.fixture(scope="session")
def version_processes(valkey_url: str, older_place: Path) -> Iterator[dict[str, VersionProcess]]:
    """One process of each version, for all tests that leave them alive."""
    with version_starter(valkey_url, older_place) as start:
        yield {version: start(version) for version in ("older", "newer")}


@pytest.fixture
def start_version(valkey_url: str, older_place: Path, namespace: str) -> Iterator[Callable[[str], VersionProcess]]:
    """``start_version("older")`` or ``start_version("newer")``: a process of this test's own."""
    with version_starter(valkey_url, older_place) as start:

        def begin(version: str) -> VersionProcess:
            hand = start(version)
            hand(f"begin({namespace!r})")
            return hand

        yield begin


@pytest.fixture(params=[("older", "newer"), ("newer", "older")], ids=" gives ".join)
def versions(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Two versions: one gives, the other takes."""
    one, other = request.param
    return one, other


@pytest.fixture
def pair(
    versions: tuple[str, str], version_processes: dict[str, VersionProcess], namespace: str
) -> tuple[VersionProcess, VersionProcess]:
    """The two, on the same server, in this test's own namespace."""
    one, other = (version_processes[version] for version in versions)
    both((one, other), f"begin({namespace!r})")
    return one, other


def both(pair: tuple[VersionProcess, VersionProcess], told: str) -> Any:
    """Sends both versions the same; they must answer alike."""
    answers = [hand(told) for hand in pair]
    assert answers[0] == answers[1]
    return answers[0]
