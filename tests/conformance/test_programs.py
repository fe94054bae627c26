"""The programs on each kind of server: workers and services as processes, users' tests."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import tarry
from conformance import jobs
from conformance.cli import Cli
from conformance.conftest import PLACES
from conformance.environment import Environment, perform
from tarry.testing import TestClock
from until import LONGEST_S, until
from warm import WarmProcess, WarmTarry


@contextmanager
def process(warm: WarmTarry, folder: Path, *words: str, **environment: str) -> Iterator[tuple[WarmProcess, Path]]:
    log = folder / "log"
    with log.open("wb") as out:
        running = warm.start(words, out, {"PYTHONUNBUFFERED": "1", **environment}, folder)
    try:
        yield running, log
    finally:
        running.kill()
        running.wait()


APP = """
import tarry
worker = tarry.Worker("shop", concurrency=5)

@worker.on("orders")
def close(job):
    print(f"closed {job.body}\\n", end="", flush=True)  # one write: two processes share the file

@worker.task
def hello(name):
    print(f"hello {name}\\n", end="", flush=True)

@worker.every("1s", topic="beats")
def beat():
    print("beat\\n", end="", flush=True)
"""


def test_a_worker_runs_from_the_url(
    place: str, url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    """By two child processes on a Cluster; what a child is told of its server does not depend on the kind."""
    (tmp_path / "app.py").write_text(APP)
    processes = 2 if place.startswith("cluster") else 1
    words = ("worker", "app:worker", "--processes", str(processes), "--namespace", namespace)
    with (
        tarry.Client(url, namespace=namespace) as client,
        process(tarry_command, tmp_path, *words, TARRY_URL=url) as (running, log),
    ):
        client.topic("orders").add_many(range(20), delay="10ms")
        until(lambda: log.read_text().count("closed ") == 20)
        until(lambda: "beat" in log.read_text())
        until(lambda: len(client.workers()) == processes)
        [schedule] = client.schedules.list()
        assert (schedule.topic, schedule.from_code) == ("beats", True)
        running.send_signal(signal.SIGTERM)
        assert running.wait(LONGEST_S) == 0, log.read_text()
        assert client.workers() == []
        assert client.topic("orders").check().ok


def test_a_service_runs_from_the_url(url: str, namespace: str, tmp_path: Path, tarry_command: WarmTarry) -> None:
    """Its API, its dashboard, its metrics; by a token."""
    cli = Cli(url, namespace)
    [token] = cli("token", "create", "--scope", "admin", "--scope", "produce", "--scope", "consume")
    words = ("serve", "--url", url, "--port", "0", "--namespace", namespace, "--delayed-queue", f"{namespace} queue")
    with process(tarry_command, tmp_path, *words) as (running, log):
        base = until(lambda: _address(log.read_text()))
        with (
            tarry.HTTPClient(base, namespace=namespace, token=token["token"]) as client,
            httpx.Client(
                base_url=base, headers={"authorization": f"Bearer {token['token']}"}, timeout=LONGEST_S
            ) as http,
            tarry.Client(url, namespace=namespace) as inside,
        ):
            orders = client.topic("orders")
            orders.add({"order": 7}, id="7")
            job = orders.pop(wait=LONGEST_S)
            assert job is not None
            with job:
                assert job.body == {"order": 7}
            assert http.get("/readyz").json()["status"] == "ok"
            assert 'tarry_jobs{namespace="' in http.get("/metrics").text
            inside.delayed_queue(f"{namespace} queue", codec="string").offer("tea", "20ms")
            until(lambda: inside.blocking_queue(f"{namespace} queue", codec="string").size() == 1)
            inside.lock(f"{namespace} lock", lease="1m").acquire()
            assert f"{namespace} lock" in http.get("/v1/locks").text
            inside.schedules.put("orders", "often", every="1h")
            assert "often" in http.get("/v1/schedules").text
            http.post("/sign-in", data={"token": token["token"]}, headers={"sec-fetch-site": "same-origin"})
            for page in ("/", "/topic?topic=orders", "/schedules", "/workers", "/queues", "/locks", "/maps", "/server"):
                answer = http.get(page)
                assert answer.status_code == 200, (page, answer.text)
        running.send_signal(signal.SIGTERM)
        assert running.wait(LONGEST_S) == 0, log.read_text()


@pytest.mark.parametrize("client_kind", ["sync", "async"])
@pytest.mark.parametrize(
    "place", [*PLACES[:2], pytest.param("sentinels of valkey", marks=[*PLACES[2].marks, pytest.mark.long])]
)
def test_every_verb_of_a_topic_works_over_http(
    running_service: Any, url: str, namespace: str, client_kind: str
) -> None:
    running_service.call(running_service.app.clients.put, namespace, tarry.AsyncClient(url, namespace=namespace))
    try:
        world = Environment(client_kind, url, namespace)
        kind: Any = tarry.HTTPClient if client_kind == "sync" else tarry.AsyncHTTPClient
        world.through(kind(running_service.url, namespace=namespace))
        perform(world.run_story(jobs.topics))
    finally:
        running_service.run(running_service.app.clients.drop(namespace))


@pytest.mark.otherserver
@pytest.mark.slow
def test_the_demo_runs_on_a_cluster(
    constellation: Callable[[str], Any], tmp_path: Path, tarry_command: WarmTarry
) -> None:
    words = ("demo", "--jobs", "60", "--seconds", "2", "--json", "--url", constellation("cluster of valkey").url)
    with process(tarry_command, tmp_path, *words) as (running, log):
        assert running.wait(LONGEST_S) == 0, log.read_text()
        assert '"ok":true' in log.read_text()


def _address(said: str) -> str:
    words = said.partition("service at ")[2].split()
    return words[0] if words else ""


def test_tarry_testing_works_on_every_kind_of_server(url: str, namespace: str) -> None:
    """``tarry.testing`` on a server that was started for tests, whatever its kind."""
    clock = TestClock(url, namespace)
    worker = tarry.Worker("shop", namespace=namespace)
    closed: list[Any] = []

    @worker.on("orders")
    def close(job: Any) -> None:
        closed.append(job.body)

    clock.attach(worker)
    try:
        clock.client.topic("orders").add("tea", delay="30m")
        clock.advance("29m")
        assert closed == []
        clock.advance("2m")
        assert closed == ["tea"]
    finally:
        clock.close()
