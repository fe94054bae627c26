"""``tarry worker`` as processes: one, or a parent and its children, told to stop, killed, or held."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import tarry
from programs.terminal import Cli
from tarry.worker.parent import Parent
from until import is_alive, until
from warm import WarmProcess, WarmTarry

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
KINDS = pytest.mark.parametrize(
    ("processes", "topic"),
    [
        ("2", "orders"),
        ("1", "plain"),
        *[pytest.param(*kind, marks=pytest.mark.long) for kind in (("1", "orders"), ("2", "plain"))],
    ],
)
"""One process and several, awaited functions and plain ones: each kind once, and all pairs in ``make test-long``."""
Start = Callable[..., "WorkerGroup"]


class WorkerGroup:
    """What ``tarry worker`` started, and what its handlers wrote down."""

    def __init__(self, process: WarmProcess, journal: Path, log: Path) -> None:
        self.process = process
        self._journal = journal
        self._log = log

    def journal_lines(self, word: str) -> list[list[str]]:
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return [line.split()[1:] for line in lines if line.startswith(word)]

    def pid_of(self, id: str) -> int:
        return int([words for words in self.journal_lines("taken") if words[0] == id][-1][2])

    def ended(self) -> tuple[int | None, str]:
        return self.process.wait(), self._log.read_text()


@pytest.fixture
def start_workers(valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[Start]:
    """``start_workers("--processes", "2", ttr="1s")`` runs ``tarry worker worker_app:worker`` with these words."""
    started: list[WorkerGroup] = []

    def start(*words: str, app: str = "worker_app:worker", ttr: str = "10m", grace: str = "10s") -> WorkerGroup:
        journal, log = tmp_path / f"journal-{len(started)}", tmp_path / f"log-{len(started)}"
        place = {
            "TARRY_URL": valkey_url,
            "TARRY_NAMESPACE": namespace,
            "DIARY": str(journal),
            "TTR": ttr,
            "GRACE": grace,
        }
        with log.open("wb") as out:
            process = tarry_command.start(["worker", app, *words], out, place, HERE)
        started.append(WorkerGroup(process, journal, log))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.send_signal(signal.SIGINT)  # another signal: two of the same kind may arrive as one
            one.process.wait()


@KINDS
def test_sigterm_exits_with_0_when_all_jobs_ended(
    client: tarry.Client, start_workers: Start, topic: str, processes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its children are started as a user's are; elsewhere here they start warm."""
    monkeypatch.setenv("COLD_CHILDREN", "yes")
    client.topic(topic).add_many(["quick"] * 20)
    some = start_workers("--processes", processes)
    until(lambda: len(some.journal_lines("closed")) == 20, "all closed")
    some.process.terminate()
    code, said = some.ended()
    assert code == 0, said
    assert client.topic(topic).stats().finished == 20
    assert "SIGTERM" in said
    assert topic in said


@KINDS
def test_a_worker_exits_with_4_when_a_running_job_was_given_back(
    client: tarry.Client, start_workers: Start, topic: str, processes: str
) -> None:
    client.topic(topic).add("stuck", id="7")
    some = start_workers("--processes", processes, grace="50ms")
    until(lambda: some.journal_lines("taken"), "taken")
    some.process.send_signal(signal.SIGINT)
    code, said = some.ended()
    assert code == 4, said
    job = client.topic(topic).get("7")
    assert job is not None
    assert (job.state, job.attempts) == ("ready", 0)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_signal_ends_the_grace_period(client: tarry.Client, start_workers: Start, processes: str) -> None:
    client.topic("orders").add("stuck")
    some = start_workers("--processes", processes, grace="10h")
    until(lambda: some.journal_lines("taken"), "taken")
    some.process.terminate()
    some.process.send_signal(signal.SIGINT)
    assert some.ended()[0] == 4


def test_a_signal_to_the_whole_process_group_keeps_the_grace_period(client: tarry.Client, start_workers: Start) -> None:
    """Its SIGTERM and the parent's are no second signal."""
    client.topic("orders").add("slow", id="7")
    some = start_workers("--processes", "2", grace="10h")
    until(lambda: some.journal_lines("taken"), "taken")
    os.kill(some.pid_of("7"), signal.SIGTERM)
    until(lambda: any(info.stopping for info in client.workers()), "the child has heard it")
    some.process.terminate()
    assert some.ended()[0] == 0
    assert some.journal_lines("closed") == [["7"]]


def test_repeated_signals_end_a_worker_with_a_blocked_loop(client: tarry.Client, start_workers: Start) -> None:
    client.topic("orders").add("block")
    some = start_workers()
    until(lambda: some.journal_lines("taken"), "taken")

    def asked() -> bool:
        some.process.terminate()
        return some.process.poll() is not None

    until(asked, "it has ended")
    code, said = some.ended()
    assert code == 4
    assert "this process ends now" in said


def test_a_killed_child_is_replaced_and_its_jobs_are_given_back_at_once(
    client: tarry.Client, start_workers: Start
) -> None:
    orders = client.topic("orders")
    orders.add("stuck", id="7")
    some = start_workers("--processes", "2", "--log", "json", ttr="10h")
    until(lambda: some.journal_lines("taken"), "taken")
    victim = some.pid_of("7")
    until(lambda: len(client.workers()) == 2, "both children are known")
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(some.journal_lines("taken")) == 2, "taken again, hours before its TTR is over")
    until(lambda: victim not in [info.pid for info in client.workers()], "known no more, before half a minute is over")
    assert [words[1] for words in some.journal_lines("taken")] == ["1", "2"], (
        "the attempt counts: a job may have killed it"
    )
    assert some.pid_of("7") != victim
    some.process.terminate()
    some.process.send_signal(signal.SIGINT)
    code, said = some.ended()
    assert code == 4
    assert "was killed by SIGKILL; 1 jobs released" in said
    lines = [json.loads(line) for line in said.splitlines()]  # JSON from the first byte to the last
    first, [killed] = lines[0], [line for line in lines if "was killed by SIGKILL" in line["message"]]
    assert (killed["released"], killed["pid"]) == (1, victim)
    assert (first["message"], first["processes"], first["topics"][0]) == ("the worker starts", 2, "orders")
    assert orders.check().ok


def test_a_child_that_crashed_just_before_the_parent_is_stopped_is_logged(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
        loop = asyncio.get_running_loop()

        class StoppedMeanwhile(Parent):
            """Is told to stop while it releases the jobs of its child."""

            def _release_jobs_of(self, holder: str, counts: bool) -> int:
                loop.call_soon_threadsafe(self.stop)
                return super()._release_jobs_of(holder, counts)

        crash = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        return await StoppedMeanwhile(worker, crash, 1).run()

    assert asyncio.run(scenario()) == 0
    errors = [record.getMessage() for record in caplog.records if record.name == "tarry.worker"]
    assert ["was killed by SIGKILL; 0 jobs released" in line for line in errors] == [True]


def test_a_child_that_does_not_exit_is_killed(
    valkey_url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tarry.worker.parent.KILL_MARGIN_S", 0.01)
    deaf = tmp_path / "deaf"
    program = (
        "import signal, pathlib, time\n"
        "for number in (signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)\n"
        f"pathlib.Path({str(deaf)!r}).touch()\n"
        "time.sleep(60)"
    )

    async def scenario() -> int:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, grace="10ms")
        parent = Parent(worker, (sys.executable, "-c", program), 1)
        running = asyncio.ensure_future(parent.run())
        await asyncio.to_thread(until, deaf.exists, "it ignores signals")
        parent.stop()
        return await running

    assert asyncio.run(scenario()) == 0
    assert "does not exit; it is killed" in caplog.text


def test_a_job_that_kills_its_worker_processes_becomes_dead(client: tarry.Client, start_workers: Start) -> None:
    orders = client.topic("orders")
    orders.add("poison", id="7", max_attempts=2)
    some = start_workers("--processes", "2")
    until(lambda: orders.stats().dead == 1, "set aside")
    job = orders.get("7")
    assert job is not None
    assert (job.reason, job.error) == ("attempts exhausted", "its worker died")
    some.process.terminate()
    assert some.ended()[0] == 0


def test_children_exit_when_their_parent_is_killed(client: tarry.Client, start_workers: Start) -> None:
    orders = client.topic("orders")
    orders.add("stuck", id="7")
    some = start_workers("--processes", "2", grace="0")
    until(lambda: some.journal_lines("taken"), "taken")
    child = some.pid_of("7")
    some.process.kill()
    some.process.wait()
    until(lambda: not is_alive(child), "the child is gone")
    assert orders.stats().ready == 1


def test_a_handler_that_holds_the_gil_beyond_the_ttr_keeps_its_job(
    client: tarry.Client, start_workers: Start, tmp_path: Path
) -> None:
    """It holds the interpreter until somebody writes to a pipe: when the parent has renewed the reservation beyond the first TTR."""
    orders, pipe = client.topic("orders"), tmp_path / "pipe"
    os.mkfifo(pipe)

    def reserved_until() -> datetime:
        found = orders.get("7")
        assert found is not None
        assert found.reserved_until is not None
        return found.reserved_until

    some = start_workers("--processes", "2", ttr="6s")
    orders.add(f"hold the interpreter until {pipe}", id="7", ttr=None)
    until(lambda: some.journal_lines("taken"), "taken")
    first = reserved_until()
    until(lambda: reserved_until() > first, "renewed by the parent")
    with pipe.open("wb"):
        until(lambda: some.journal_lines("closed"), "closed")
    until(lambda: orders.stats().finished == 1, "finished")
    assert (len(some.journal_lines("taken")), orders.stats().timed_out, orders.stats().refused) == (1, 0, 0)


def test_topics_option_limits_the_topics(client: tarry.Client, start_workers: Start) -> None:
    client.topic("plain").add("quick", id="p")
    client.topic("orders").add("quick", id="o")
    some = start_workers("--topics", "orders", "--concurrency", "3", app="worker_app:made")
    until(lambda: some.journal_lines("closed"), "closed")
    some.process.terminate()
    code, said = some.ended()
    assert (code, some.journal_lines("closed"), client.topic("plain").stats().ready) == (0, [["o"]], 1)
    assert "in all   3 at a time" in said


@pytest.mark.parametrize(
    ("app", "words", "error"),
    [
        ("nowhere:worker", [], "no module 'nowhere'"),
        ("worker_app:nobody", [], "worker_app has no nobody"),
        ("worker_app:nothing", [], "is of type int, not a tarry.Worker"),
        (":", [], "write module:worker, such as app:worker"),
        ("nowhere", [], "there is no module 'nowhere'"),
        ("worker_app:", [], "worker: 'worker_app:'; write module:worker"),
        ("worker_app", ["--topics", "letters"], "no handler for 'letters'; there are orders, plain"),
        ("worker_app:worker.no", [], "has no worker.no; write worker_app:worker"),
        ("worker_app.py", [], "is a file; write its module and the worker's name: worker_app:worker."),
        ("./parts/mail.py:w", [], "is a file; write its module and the worker's name: parts.mail:w."),
        ("worker_app:close", [], "is of type function, not a tarry.Worker; write worker_app:worker"),
        ("worker_app:worker", ["--topics", "letters"], "no handler for 'letters'; there are orders, plain"),
        ("worker_app:worker", ["--log", "xml"], "it is text or json"),
        ("worker_app:worker", ["--log-level", "loud"], "it is debug, info, warning or error"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, monkeypatch: pytest.MonkeyPatch, app: str, words: Any, error: str) -> None:
    monkeypatch.chdir(HERE)
    done = cli("worker", app, *words)
    assert done.returncode == 2, done.stderr
    assert error in done.stderr
    assert "Traceback" not in done.stderr


def test_another_module_by_the_name_of_the_file_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python has imported its own `queue` long before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue.py").write_text("import tarry\nworker = tarry.Worker('shop')\n")
    done = cli("worker", "queue:worker")
    assert done.returncode == 2
    assert "worker: queue has no worker; it is /" in done.stderr
    assert "queue.py, and not queue.py here: another module has this name; give the file another one." in done.stderr


def test_a_task_in_place_of_the_worker_is_not_called(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(
        "import tarry\nmine = tarry.Worker('shop')\n@mine.task\ndef charge(order: int = 0): print('charged')\n"
    )
    done = cli("worker", "shop:charge")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "error: worker: shop:charge is of type Task, not a tarry.Worker; write shop:mine. [bad_input]\n"
    )


BROKEN = {
    "raising": ("import deeper", ["deeper.py", "limit = read()", "ValueError: invalid literal", "(deeper.py, line 2)"]),
    "refused": (
        "import tarry\ntarry.Worker().on('n')(print)",
        ["refused.py", "tarry.errors.BadInput: handler print"],
    ),
    "unwritten": ("def (:", ["unwritten.py", "SyntaxError", "(unwritten.py, line 1)"]),
    "lacking": ("import nowhere_at_all", ["lacking.py", "No module named 'nowhere_at_all' (lacking.py, line 1)"]),
    "made": ("def worker(): return 1 / 0", ["made.py", "made:worker cannot be called", "ZeroDivisionError"]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_application_error_is_shown_without_tarry_frames(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text, wanted = BROKEN[name]
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "deeper.py").write_text("def read():\n    return int('many')\n\nlimit = read()\n")
    done = cli("worker", f"{name}:worker")
    assert done.returncode == 2, done.stderr
    assert [word for word in wanted if word not in done.stderr] == []
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert [line for line in frames if str(tmp_path) not in line] == []
    assert done.stderr.splitlines()[-1].startswith(f"error: worker: {name}")


def test_an_unusable_server_exits_with_3(start_workers: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_EMBEDDED", "no")
    for processes in ("1", "2"):
        code, said = start_workers("--processes", processes, "--url", "embedded://").ended()
        assert (code, "[server_unfit]" in said) == (3, True), said


def test_a_worker_whose_background_work_fails_again_and_again_ends_as_unfit(start_workers: Start) -> None:
    code, log = start_workers(app="unfit_app:worker").ended()
    assert code == 3
    assert "error: tarry renewal failed 10 times within a minute, at last by TypeError: a bug of tarry." in log
    assert log.count("Traceback (most recent call last)") == 10
