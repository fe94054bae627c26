"""Processes of two versions of tarry on one real server: the one that is tested, and an older commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from upgrade.older import NoHistory, unpacked
from warm import WarmProcess, WarmTarry

HERE = Path(__file__).parent
COMMANDS = HERE / "command_process.py"


class Refused(Exception):
    """What a hand's tarry raised: the error's name, and its words."""

    def __init__(self, name: str, says: str) -> None:
        super().__init__(f"{name}: {says}")
        self.name = name
        self.says = says


class VersionProcess:
    """A process that has one version, and does what it is told."""

    def __init__(
        self, version: str, process: WarmProcess | subprocess.Popen[str], given: IO[str], told: IO[str]
    ) -> None:
        self.version, self.kill, self._given, self._told = version, process.kill, given, told
        self.file = Path(self.end())

    def __repr__(self) -> str:
        return self.version

    def __call__(self, told: str) -> Any:
        self.begin(told)
        return self.end()

    def begin(self, told: str) -> None:
        self._given.write(json.dumps({"do": told}) + "\n")
        self._given.flush()

    def end(self) -> Any:
        said = json.loads(self._told.readline())
        if "error" in said:
            raise Refused(said["error"], said["says"])
        return said["answer"]

    def refused(self, told: str) -> str:
        """The name of the error that comes of it."""
        with pytest.raises(Refused) as raised:
            self(told)
        return raised.value.name


@contextmanager
def older_process(url: str, older_place: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """As ``talk_to`` of tests/warm.py, but it starts Python."""
    words, pipe = [sys.executable, str(COMMANDS), url], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env=environment(older_place)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process, process.stdin, process.stdout
        finally:
            process.kill()


def environment(older_place: Path) -> dict[str, str]:
    """That of a process of the older version."""
    return {**os.environ, "PYTHONPATH": str(older_place)}


@pytest.fixture(scope="session")
def older_place() -> Path:
    """Where the older version is unpacked, beside the one that is tested; both have the same dependencies."""
    try:
        return unpacked()
    except NoHistory as fault:
        pytest.skip(str(fault))


@contextmanager
def version_starter(url: str, older_place: Path, tarry_command: WarmTarry) -> Iterator[Callable[[str], VersionProcess]]:
    with ExitStack() as stack:

        def start(version: str) -> VersionProcess:
            older = version == "older"
            talk = older_process(url, older_place) if older else tarry_command.talk_to(COMMANDS, url)
            hand = VersionProcess(version, *stack.enter_context(talk))
            assert hand.file.is_relative_to(older_place) == (version == "older")
            return hand

        yield start


@pytest.fixture(scope="session")
def version_processes(
    valkey_url: str, older_place: Path, tarry_command: WarmTarry
) -> Iterator[dict[str, VersionProcess]]:
    """One process of each version, for all tests that leave them alive."""
    with version_starter(valkey_url, older_place, tarry_command) as start:
        yield {version: start(version) for version in ("older", "newer")}


@pytest.fixture
def start_version(
    valkey_url: str, older_place: Path, namespace: str, tarry_command: WarmTarry
) -> Iterator[Callable[[str], VersionProcess]]:
    """``start_version("older")`` or ``start_version("newer")``: a process of this test's own."""
    with version_starter(valkey_url, older_place, tarry_command) as start:

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
