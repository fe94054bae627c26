"""``tarry serve --processes``: one port, children that are replaced, drained, and never left behind."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.test_process import Process, Start, start
from until import LONGEST_S, is_alive, until
from warm_children import without_nursery

pytestmark = pytest.mark.slow
__all__ = ["start"]


def children_of(running: Process) -> set[int]:
    parent = running.child.pid
    return {*without_nursery(Path(f"/proc/{parent}/task/{parent}/children").read_text().split())}


def serving(running: Process) -> set[int]:
    """The children whose event loops poll the listener, which is the one socket that they share with their parent."""
    parents = set(_open_files(running.child.pid).values())
    return {pid for pid in children_of(running) if _polls(pid, parents)}


def _open_files(pid: int) -> dict[int, str]:
    with suppress(OSError):  # it has just ended
        return {int(file.name): str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    return {}


def _polls(pid: int, wanted: set[str]) -> bool:
    files = _open_files(pid)
    shared = {number for number, name in files.items() if name.startswith("socket:") and name in wanted}
    with suppress(OSError):
        return any(
            int(polled) in shared
            for number, name in files.items()
            if "eventpoll" in name
            for polled in re.findall(r"tfd:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{number}").read_text())
        )
    return False


def one_request(url: str, path: str = "/healthz", **options: Any) -> httpx.Response:
    """Over a connection of its own: any of the processes may answer."""
    with httpx.Client(base_url=url, timeout=LONGEST_S) as http:
        return http.get(path, **options)


def in_threads(work: Callable[[], None], count: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_a_killed_process_is_replaced_and_the_others_answer_meanwhile(start: Start) -> None:
    running = start("--processes", "2", "--namespace", "crash")
    until(lambda: len(serving(running)) == 2)
    killed, other = sorted(serving(running))
    os.kill(killed, signal.SIGKILL)
    for _ in range(20):
        assert one_request(running.url).status_code == 200
    until(lambda: len(serving(running)) == 2 and killed not in serving(running))
    until(lambda: f"(pid {killed}) was killed by SIGKILL; another one starts" in running.output)
    assert other in serving(running)


def test_sigterm_drains_every_process(start: Start) -> None:
    running = start("--processes", "2", "--drain", "1s", "--namespace", "drained")
    until(lambda: len(serving(running)) == 2)
    answers: list[httpx.Response] = []

    def wait() -> None:
        answers.append(httpx.post(f"{running.url}/v1/topics/tea/pop", json={"wait": 60}, timeout=LONGEST_S))

    waiters = in_threads(wait, 6)
    until(lambda: "tarry_http_requests_held 6.0" in one_request(running.url, "/metrics").text)
    children = children_of(running)
    running.child.send_signal(signal.SIGTERM)
    for waiter in waiters:
        waiter.join(LONGEST_S)
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(503, "draining")] * 6
    assert running.ended() == 0
    assert running.output.count("tarry: draining.") == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    with pytest.raises(httpx.ConnectError):
        one_request(running.url)


def test_a_second_signal_ends_every_process_at_once(start: Start) -> None:
    running = start("--processes", "2", "--drain", "10m", "--namespace", "twice")
    until(lambda: len(serving(running)) == 2)
    children = children_of(running)
    running.child.send_signal(signal.SIGTERM)
    until(lambda: "tarry: draining." in running.output)
    running.child.send_signal(signal.SIGTERM)
    assert running.ended() == 0
    assert not any(map(is_alive, children))


def test_the_processes_end_with_their_parent(start: Start) -> None:
    running = start("--processes", "2", "--drain", "0s", "--namespace", "orphans")
    until(lambda: len(serving(running)) == 2)
    children = children_of(running)
    running.child.kill()
    until(lambda: not any(map(is_alive, children)))
    with pytest.raises(httpx.ConnectError):
        one_request(running.url)


def test_the_folder_of_a_killed_parent_is_removed_by_the_next_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def start_two(namespace: str) -> Process:
        running = start("--processes", "2", "--namespace", namespace)
        until(lambda: len(serving(running)) == 2)
        return running

    killed = start_two("killed")
    (left,) = tmp_path.glob("tarry-metrics-*")
    children = children_of(killed)
    killed.child.kill()
    until(lambda: not any(map(is_alive, children)))
    start_two("next")
    assert not left.exists()
    start_two("beside")
    assert len(list(tmp_path.glob("tarry-metrics-*"))) == 2, "that of a living one stays"


def test_processes_count_requests_together_and_import_nothing_from_the_current_folder(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """How they count together is decided when prometheus_client is imported: they start as a user's do, beside a module that is not theirs."""
    monkeypatch.setenv("COLD_CHILDREN", "yes")
    (tmp_path / "json.py").write_text("raise ImportError('foreign code')")
    monkeypatch.chdir(tmp_path)
    running = start("--processes", "2", "--namespace", "counted")
    until(lambda: len(serving(running)) == 2 or "ended with" in running.output)
    assert "ended with" not in running.output
    for _ in range(40):
        one_request(running.url, "/v1/topics")
    counted = re.compile(r'^tarry_http_request_seconds_count\{route="topics_names",status="200"\} (\S+)$', re.M)
    for _ in range(10):
        assert counted.findall(one_request(running.url, "/metrics").text) == ["40.0"]


@pytest.mark.parametrize("words", [("--dashboard",), ("--beanstalk", "127.0.0.1:0")])
def test_what_needs_one_process_is_refused_with_several(start: Start, words: tuple[str, ...]) -> None:
    running = start("--processes", "2", *words)
    assert running.ended() == 2
    assert "need a service of one process" in " ".join(running.output.split())
