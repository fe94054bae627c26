"""A rolling upgrade under load: old and new producers, workers and waiting consumers on one server, the old ones stopped one by
one, with SIGTERM and with kill -9. Nothing is lost, and what is done twice was in a killed process's hands."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tarry
from until import LONGEST_S, until
from upgrade.conftest import HERE, environment
from warm import WarmProcess, WarmTarry

pytestmark = pytest.mark.slow


class Deploy:
    """Processes of both versions, and what they noted."""

    def __init__(self, url: str, namespace: str, older_place: Path, journal: Path, tarry_command: WarmTarry) -> None:
        self._words = (url, namespace)
        self._older, self._newer = environment(older_place), tarry_command
        self._diary = journal
        self.crew: dict[str, subprocess.Popen[bytes] | WarmProcess] = {}
        journal.touch()

    def start(self, *names: str) -> None:
        """``older-worker-1``: the version, the role, and a number."""
        for name in names:
            version, role, _ = name.split("-")
            program, words = HERE / "version_process.py", [role, *self._words, name, str(self._diary)]
            if version == "newer":
                self.crew[name] = self._newer.start_program(program, *words)
            else:
                self.crew[name] = subprocess.Popen([sys.executable, program, *words], env=self._older)

    def end(self, name: str, number: int) -> None:
        process = self.crew.pop(name)
        process.send_signal(number)
        assert process.wait(LONGEST_S) == (-number if number == signal.SIGKILL else 0)

    def lines(self, word: str) -> list[list[str]]:
        noted = [line.split() for line in self._diary.read_text().splitlines()]
        return [line[1:] for line in noted if line[0] == word]

    def until_all_work(self) -> None:
        """Each has done something since now."""
        since = Counter(line[-1] for line in self.lines("done")) + Counter(
            line[0].rpartition("-")[0] for line in self.lines("added")
        )

        def so() -> bool:
            now = Counter(line[-1] for line in self.lines("done")) + Counter(
                line[0].rpartition("-")[0] for line in self.lines("added")
            )
            return all(now[name] > since[name] for name in self.crew)

        until(so, "everybody at work")


@pytest.fixture
def deploy(
    valkey_url: str, older_place: Path, tmp_path: Path, namespace: str, tarry_command: WarmTarry
) -> Iterator[Deploy]:
    made = Deploy(valkey_url, namespace, older_place, tmp_path / "journal", tarry_command)
    yield made
    for process in made.crew.values():
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_S)


def test_a_rolling_upgrade_under_load_loses_nothing(deploy: Deploy, valkey_url: str, namespace: str) -> None:
    deploy.start("older-producer-1", "older-worker-1", "older-worker-2", "older-waiter-1")
    deploy.until_all_work()
    deploy.start("newer-worker-1", "newer-waiter-1", "newer-producer-1")
    deploy.until_all_work()

    deploy.end("older-worker-1", signal.SIGTERM)
    deploy.until_all_work()
    deploy.end("older-worker-2", signal.SIGKILL)
    deploy.until_all_work()
    deploy.end("older-waiter-1", signal.SIGKILL)
    deploy.until_all_work()  # an old producer, and nobody old to work
    deploy.end("older-producer-1", signal.SIGTERM)
    deploy.until_all_work()
    deploy.end("newer-producer-1", signal.SIGTERM)

    added = {id for (id,) in deploy.lines("added")}
    with tarry.Client(valkey_url, namespace=namespace) as client:
        topic = client.topic("orders")

        def is_empty() -> bool:
            now = (
                topic.stats()
            )  # of one moment: a job that changes its state between two looks would be seen in neither
            return now.delayed + now.ready + now.reserved == 0

        until(is_empty, "an empty topic")
        found, stats = topic.check(), topic.stats()
        assert found.ok, found.faults
    deploy.end("newer-waiter-1", signal.SIGTERM)
    deploy.end("newer-worker-1", signal.SIGTERM)

    begun = [(id, int(attempt), by) for id, attempt, by in deploy.lines("begun")]
    done = Counter(id for id, _, _ in deploy.lines("done"))
    killed = {"older-worker-2", "older-waiter-1"}
    assert added <= set(done), f"lost: {sorted(added - set(done))[:9]}"
    assert (stats.finished, stats.dead, stats.lost) == (stats.added, 0, 0)
    assert stats.added - len(added) <= 2, "what a producer had added when it was told to stop, and not noted"
    assert max(Counter((id, attempt) for id, attempt, _ in begun).values()) == 1, "one attempt, one process"
    again = {id for id, attempt, _ in begun if attempt > 1}
    assert again.isdisjoint(id for id, attempt, by in begun if attempt == 1 and by not in killed)
    assert {id for id, times in done.items() if times > 1} <= again
    assert stats.timed_out <= len(again) <= stats.timed_out + stats.released, "one releases what a dead worker had"
    hands = {(id.split("-")[0], by.split("-")[0]) for id, _, by in begun}
    assert hands == {("older", "older"), ("older", "newer"), ("newer", "older"), ("newer", "newer")}
