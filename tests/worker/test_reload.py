"""``tarry worker --reload`` and ``--max-jobs-per-child``, as processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tarry
from tarry.worker.reload import changing_files
from until import until
from warm import WarmProcess, WarmTarry

pytestmark = pytest.mark.slow
Start = Callable[..., WarmProcess]

APP = """
import os
from pathlib import Path

import tarry

VERSION = "{version}"
worker = tarry.Worker(ttr="10m"{options})


def note(*words):
    with Path("journal").open("a") as file:
        file.write(" ".join(map(str, words)) + "\\n")


{kind}
def close(body: str) -> None:
    note(VERSION, body, os.getpid())


note(VERSION, "imported")
"""
ON = '@worker.on("orders")'


def app(version: str, kind: str = ON, options: str = "") -> str:
    return APP.format(version=version, kind=kind, options=options)


@pytest.fixture
def start(valkey_url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[Start]:
    started: list[WarmProcess] = []

    def run(*words: str) -> WarmProcess:
        place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": namespace}
        with (tmp_path / "log").open("wb") as log:
            started.append(tarry_command.start(["worker", "app:worker", *words], log, place, tmp_path))
        return started[-1]

    yield run
    for one in started:
        if one.poll() is None:
            one.terminate()
            one.wait()


def lines(folder: Path, name: str = "journal") -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def test_a_changed_file_starts_the_worker_again(client: tarry.Client, start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(app("one"))
    worker = start("--reload")
    client.topic("orders").add("a")
    until(lambda: any(line.startswith("one a") for line in lines(tmp_path)), "the first version ran it")
    (tmp_path / "app.py").write_text("an error (\n")
    until(lambda: "ended with 2" in (tmp_path / "log").read_text(), "the broken version has ended")
    assert worker.poll() is None
    (tmp_path / "app.py").write_text(app("three"))
    client.topic("orders").add("b")
    until(lambda: any(line.startswith("three b") for line in lines(tmp_path)), "the third version ran it")
    worker.terminate()
    assert worker.wait() == 0
    assert "app.py has changed" in (tmp_path / "log").read_text()


def test_a_killed_reloader_leaves_no_worker_behind(
    client: tarry.Client, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform != "linux":
        pytest.skip("needs Linux")
    monkeypatch.setenv("COLD_CHILDREN", "yes")
    (tmp_path / "app.py").write_text(app("one"))
    worker = start("--reload")
    until(client.workers, "it runs")
    worker.kill()
    worker.wait()
    until(lambda: not client.workers(), "the worker has left")


def test_only_python_files_of_the_project_are_watched(tmp_path: Path) -> None:
    for name in ("app.py", "shop/tasks.py", "shop/page.html", ".venv/x.py", "env/pyvenv.cfg", "env/lib/y.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert {Path(path).relative_to(tmp_path).as_posix() for path in changing_files(tmp_path)} == {
        "app.py",
        "shop/tasks.py",
    }


@pytest.mark.parametrize("words", [("--max-jobs-per-child", "2"), ("--max-jobs-per-child", "2", "--processes", "2")])
def test_a_child_is_replaced_after_its_jobs(
    client: tarry.Client, start: Start, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "app.py").write_text(app("one"))
    orders = client.topic("orders")
    orders.add_many(["x"] * 7)
    worker = start(*words)
    until(lambda: orders.stats().finished == 7, "all finished")
    pids = [line.split()[2] for line in lines(tmp_path) if line.startswith("one x")]
    assert len(pids) == 7
    assert max(pids.count(pid) for pid in pids) <= 2
    worker.terminate()
    assert worker.wait() == 0
    log = (tmp_path / "log").read_text()
    assert "is replaced by another one" in log
    assert "✗" not in log
    assert all(job.attempts <= 1 for job in orders.list())


def test_a_child_waits_for_its_running_jobs_before_it_is_replaced(
    client: tarry.Client, start: Start, tmp_path: Path
) -> None:
    wait = ON + '\nasync def close(body: str) -> None:\n    import asyncio\n    note("begun", body, os.getpid())\n'
    wait += "    while not Path(body).exists():\n        await asyncio.sleep(0.01)\n"
    wait += '    note("closed", body)\n\n\n@worker.on("others")'
    (tmp_path / "app.py").write_text(app("one", wait, ', grace="0"'))
    client.topic("orders").add_many(["a", "b", "c"])
    start("--max-jobs-per-child", "2")
    until(lambda: sum(line.startswith("begun") for line in lines(tmp_path)) == 2, "two of them run")
    until(lambda: any(info.stopping for info in client.workers()), "the child takes no more")
    for name in "abc":
        (tmp_path / name).touch()
    until(lambda: client.topic("orders").stats().finished == 3, "all finished")
    assert sum(line.startswith("begun") for line in lines(tmp_path)) == 3, "none was released"


def test_a_process_of_a_function_is_replaced_after_its_jobs(
    client: tarry.Client, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARM_FUNCTIONS", "yes")
    kind = '@worker.on("orders", run="process", concurrency=1)'
    (tmp_path / "app.py").write_text(app("one", kind))
    orders = client.topic("orders")
    orders.add_many(["x"] * 5)
    start("--max-jobs-per-child", "2")
    until(lambda: orders.stats().finished == 5, "all finished")
    pids = [line.split()[2] for line in lines(tmp_path) if line.startswith("one x")]
    assert sorted(pids.count(pid) for pid in set(pids)) == [1, 2, 2]


@pytest.mark.parametrize("jobs", [0, -1, True, "7", 1.5])
def test_a_number_of_jobs_is_a_whole_number(jobs: int) -> None:
    with pytest.raises(tarry.BadInput, match="max_jobs_per_child"):
        tarry.Worker(max_jobs_per_child=jobs)
