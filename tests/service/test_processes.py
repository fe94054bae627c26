"""``tarry serve --processes``: one port, children that are replaced, drained, and never left behind."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.test_process import Process, Start, start
from until import until

pytestmark = pytest.mark.slow
__all__ = ["start"]


def children_of(running: Process) -> set[int]:
    parent = running.child.pid
    return {int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def serving(running: Process) -> set[int]:
    """The children that have the port open for their own connections."""
    return {pid for pid in children_of(running) if _accepts(pid, int(running.url.rpartition(":")[2]))}


def _accepts(pid: int, port: int) -> bool:
    """Whether a process polls its port: its event loop has registered the descriptor."""
    try:
        inodes = {
            fields[9]
            for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
            if (fields := line.split())[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
        }
        files = Path(f"/proc/{pid}/fd")
        mine = {int(file.name) for file in files.iterdir() if str(file.readlink())[8:-1] in inodes}
        polled = {
            int(found[1])
            for file in files.iterdir()
            if "eventpoll" in str(file.readlink())
            for found in re.finditer(r"tfd:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{file.name}").read_text())
        }
    except OSError:
        return False
    return bool(mine & polled)


def one_request(url: str, path: str = "/healthz", **options: Any) -> httpx.Response:
    """Over a connection of its own: any of the processes may answer."""
    with httpx.Client(base_url=url, timeout=30) as http:
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
    assert f"(pid {killed}) was killed by SIGKILL; another one starts" in running.output
    assert other in serving(running)


def test_sigterm_drains_every_process(start: Start) -> None:
    running = start("--processes", "2", "--drain", "1s", "--namespace", "drained")
    until(lambda: len(serving(running)) == 2)
    answers: list[httpx.Response] = []

    def wait() -> None:
        answers.append(httpx.post(f"{running.url}/v1/topics/tea/pop", json={"wait": 60}, timeout=70))

    waiters = in_threads(wait, 6)
    until(lambda: "tarry_http_requests_held 6.0" in one_request(running.url, "/metrics").text)
    children = children_of(running)
    running.child.send_signal(signal.SIGTERM)
    for waiter in waiters:
        waiter.join(30)
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
    assert not any(_lives(pid) for pid in children)


def test_the_processes_end_with_their_parent(start: Start) -> None:
    running = start("--processes", "2", "--drain", "0s", "--namespace", "orphans")
    until(lambda: len(serving(running)) == 2)
    children = children_of(running)
    running.child.kill()
    until(lambda: not any(_lives(pid) for pid in children))
    with pytest.raises(httpx.ConnectError):
        one_request(running.url)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_scrape_of_any_process_counts_the_requests_of_all(start: Start) -> None:
    running = start("--processes", "2", "--namespace", "counted")
    until(lambda: len(serving(running)) == 2)
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
