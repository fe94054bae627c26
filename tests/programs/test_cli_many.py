"""The command line over many jobs: by their state, at most so many, or only shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

import tarry
from tarry.clients.config import server_verbs
from tarry.core.requests import Command, Flow, ask
from tarry.internal import perform
from tarry.programs.cli import progress
from tarry.programs.cli.selection import list_jobs
from tarry.programs.cli.topic_commands import check_with_progress

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def made(client: tarry.Client, **options: Any) -> tarry.Topic[Any]:
    orders = client.topic("orders")
    orders.add_many([tarry.NewJob(n, id=str(n)) for n in range(10)], **options)
    return orders


def test_purge_of_reserved_jobs_ends_their_runs(client: tarry.Client, answers: Answers) -> None:
    orders = made(client)
    jobs = orders.pop_many(2)
    assert answers("purge", "orders", "--state", "reserved", "--running", "--yes") == [{"topic": "orders", "purged": 2}]
    for job in jobs:
        assert client.engine.run(server_verbs(orders).cancelled(job)) == [True], "its worker stops the run"
    assert answers("purge", "orders", "--running", "--limit", "3", "--yes") == [{"topic": "orders", "purged": 3}]
    assert answers("purge", "orders", "--running", "--yes") == [{"topic": "orders", "purged": 5}]


def test_purge_of_the_dead_takes_a_limit(client: tarry.Client, answers: Answers) -> None:
    orders = made(client)
    orders.bury_many(orders.pop_many(4), reason="no")
    assert answers("purge", "orders", "--state", "dead", "--limit", "3", "--yes") == [{"topic": "orders", "purged": 3}]
    assert (orders.stats().dead, orders.stats().ready) == (1, 6)
    assert answers("purge", "orders", "--state", "dead", "--yes") == [{"topic": "orders", "purged": 1}]


def test_kick_all_kicks_dead_jobs(client: tarry.Client, answers: Answers) -> None:
    orders = made(client)
    orders.bury_many(orders.pop_many(10), reason="no")
    assert len(answers("kick", "orders", "--all", "--dry-run")) == 10
    assert len(answers("kick", "orders", "--all", "--limit", "4")) == 4
    assert (orders.stats().dead, orders.stats().ready) == (6, 4)


def test_reschedule_by_state_moves_waiting_jobs(client: tarry.Client, answers: Answers) -> None:
    orders = made(client, delay="1h")
    assert len(answers("reschedule", "orders", "--state", "delayed", "--delay", "0")) == 10
    assert orders.stats().ready == 10
    assert [one["id"] for one in answers("reschedule", "orders", "1", "2", "--delay", "1h", "--dry-run")] == ["1", "2"]


def test_purge_takes_a_limit(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    made(client)
    assert answers("purge", "orders", "--state", "ready", "--limit", "4", "--dry-run") == [
        {"topic": "orders", "would_purge": 4}
    ]
    assert answers("purge", "orders", "--state", "ready", "--limit", "4", "--yes") == [{"topic": "orders", "purged": 4}]
    assert answers("purge", "orders", "--limit", "4", "--yes") == [{"topic": "orders", "purged": 4}]
    assert answers("purge", "orders", "--limit", "4", "--yes") == [{"topic": "orders", "purged": 2}]


def test_release_holder_releases_the_jobs_of_a_dead_process(client: tarry.Client, answers: Answers) -> None:
    orders = made(client)
    orders.pop_many(3)
    [holder] = {job.holder for job in orders.list("reserved")}
    assert holder is not None
    assert answers("release-holder", "orders", holder, "--dry-run", "--limit", "2") == [
        {"id": "0", "state": "reserved"}, {"id": "1", "state": "reserved"}
    ]  # fmt: skip
    orders.pop_many(3)
    assert answers("release-holder", "orders", holder, "--limit", "3")[0]["released"] == 3
    [told] = answers("release-holder", "orders", holder)
    assert told == {"topic": "orders", "holder": holder, "released": 3}
    assert answers("release-holder", "orders", holder)[0]["released"] == 0


def test_either_ids_or_a_state_are_required(cli: Cli) -> None:
    for words in ("reschedule orders --delay 1", "reschedule orders 7 --state delayed --delay 1"):
        done = cli(*words.split())
        assert done.returncode == 2
        assert "give ids, or --state for all jobs in a state" in done.stderr
    assert "give --delay or --at" in cli("reschedule", "orders", "7").stderr


def test_shell_completion_can_be_installed(cli: Cli) -> None:
    assert "--install-completion" in cli("--help").stdout


def test_jobs_from_a_file_support_dry_run_and_limit(client: tarry.Client, answers: Answers, cli: Cli) -> None:
    lines = "".join(f'{{"body": {n}, "id": "{n}"}}\n' for n in range(5))
    assert answers("add", "orders", "--file", "-", "--dry-run", stdin=lines) == [{"topic": "orders", "would_add": 5}]
    assert client.topics() == []
    assert len(answers("add", "orders", "--file", "-", "--limit", "2", stdin=lines)) == 2
    assert answers("add", "orders", "--file", "-", "--limit", "2", stdin="") == []
    assert client.topic("orders").stats().ready == 2
    assert (
        cli("add", "orders", "--file", "-", "--dry-run", stdin='{"body": 1}\n{"body": 1, "ttr": "no"}').returncode == 2
    )
    assert cli("add", "orders", "1", "--dry-run").returncode == 2


def test_long_work_shows_a_progress_line_and_clears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress("orders: deleting", 50_000) as more:
        more(1)
        assert screen.getvalue() == "", "what is soon over shows nothing"
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    stdout = sys.stdout
    with progress.progress("orders: deleting", 50_000) as more:
        more(20_000)
        more(20_000)
        assert sys.stdout is stdout, "answers go past it"
    assert "orders: deleting" in screen.getvalue()
    assert "40000/50000" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "the line is wiped"


def test_looking_for_jobs_shows_its_progress(client: tarry.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, orders = Screen(), made(client)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    assert len(list(list_jobs(orders, "ready", 10))) == 10
    assert "orders: looking" in screen.getvalue()
    assert "10/10" in screen.getvalue()


def test_every_progress_line_knows_the_total(client: tarry.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    screen, orders = Screen(), made(client)
    orders.pop_many(5)
    job = orders.pop()
    assert job is not None
    job.bury()
    counts = orders.stats()
    jobs = counts.ready + counts.reserved + counts.dead
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    assert check_with_progress(orders).looked_at == jobs + 6 + 5
    assert f"{jobs + 6 + 5}/{jobs + 6 + 5}" in screen.getvalue()
    assert len(list(list_jobs(orders, None, None))) == jobs
    assert f"{jobs}/{jobs}" in screen.getvalue()
    with progress.progress("orders: adding", 3) as more:
        more(4)
    assert "4/4" in screen.getvalue(), "more came meanwhile"


def test_a_flow_with_progress_behaves_the_same() -> None:
    def flow() -> Flow[list[Any]]:
        found: list[Any] = []
        for number in range(3):
            try:
                found.append((yield from ask(Command((b"%d" % number,), int))))
            except tarry.Unavailable as fault:
                found.append(fault)
        return found

    seen: list[Any] = []
    handle: Any = SimpleNamespace(engine=SimpleNamespace(run=lambda operation: operation))
    watching: Any = perform(handle, flow(), on_answer=lambda _, answer: seen.append(answer))
    assert next(watching).args == (b"0",)
    assert watching.send("a").args == (b"1",)
    gone = tarry.Unavailable("gone")
    watching.throw(gone)
    with pytest.raises(StopIteration) as end:
        watching.send("c")
    assert (end.value.value, seen) == (["a", gone, "c"], ["a", "c"])
