"""The programs on each kind of server: every verb of the command line, workers and services as processes, users' tests."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

import tarry
from everywhere import jobs
from everywhere.world import World, perform
from tarry.programs.cli.app import app
from tarry.programs.testing.clocks import TestClock
from until import until

ALONE = "valkey"
PLACES = [
    ALONE,
    *(
        pytest.param(place, marks=[pytest.mark.otherserver, pytest.mark.slow])
        for place in ("cluster of valkey", "sentinels of valkey")
    ),
]
PROCESSES = {"worker", "serve", "demo", "demo-worker"}
"""They run until they are told to stop; below, and the demo in a test of its own."""
_numbers = itertools.count()
WAIT_S = 30


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, place: str) -> str:
    if place == ALONE:
        return str(request.getfixturevalue("valkey_url"))
    return str(request.getfixturevalue("constellation")(place).url)


@pytest.fixture
def namespace() -> str:
    return f"programs-there-{os.getpid()}-{next(_numbers)}"


class Cli:
    """The command line, in one namespace of one server; and which of its verbs were said."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self.said: set[str] = set()

    def __call__(self, *words: str, stdin: str | None = None) -> list[Any]:
        self.said.add(next(verb for verb in (" ".join(words[:2]), words[0]) if verb in VERBS))
        return [json.loads(line) for line in self.shown(*words, "--json", stdin=stdin).splitlines()]

    def shown(self, *words: str, stdin: str | None = None) -> str:
        """For people. In this process: seventy others would be a minute of starting."""
        place = {"TARRY_URL": self.url, "TARRY_NAMESPACE": self.namespace, "TARRY_LOG": "ERROR"}
        loggers = [logging.getLogger(name) for name in ("tarry", "tarry.patience")]
        before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
        try:
            done = CliRunner().invoke(app, list(words), input=stdin, env=place)
        finally:
            for logger, logger.handlers, level, logger.propagate in before:
                logger.setLevel(level)
        if done.exception is not None and done.exit_code != 0:
            raise AssertionError((words, done.output)) from done.exception
        return done.stdout


def _verbs(group: Any, before: str = "") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        found |= _verbs(command, f"{before}{name} ") if hasattr(command, "commands") else {before + name}
    return found


VERBS = _verbs(typer.main.get_command(app))


def test_every_verb_of_the_command_line(place: str, url: str, namespace: str) -> None:
    cli = Cli(url, namespace)
    jobs_by_hand(cli)
    topics_by_hand(cli)
    shared_by_hand(cli)
    if place == ALONE:
        assert cli.said == VERBS - PROCESSES, "verbs that the story does not say"


def jobs_by_hand(cli: Cli) -> None:
    cli("add", "orders", '{"order": 7}', "--id", "7", "--delay", "1h")
    cli("add", "orders", "--file", "-", stdin='{"body": 1, "id": "a"}\n{"body": 2, "id": "b"}\n')
    [first, second] = cli("pop", "orders", "-n", "2", "--wait", "10s")
    cli("touch", "orders", "a", str(first["receipt"]))
    cli("finish", "orders", "a", str(first["receipt"]))
    cli("release", "orders", "b", str(second["receipt"]))
    [again] = cli("pop", "orders", "--wait", "10s")
    [shown] = cli("get", "orders", "b")
    cli("release-holder", "orders", shown["holder"])
    [again] = cli("pop", "orders", "--wait", "10s")
    cli("bury", "orders", "b", str(again["receipt"]), "--reason", "no use")
    assert [row["state"] for row in cli("list", "orders")] == ["delayed", "dead"]
    cli("kick", "orders", "b")
    cli("reschedule", "orders", "b", "--delay", "2h")
    cli("delete", "orders", "b")
    [stats] = cli("stats", "orders")
    assert stats["delayed"] == 1


def topics_by_hand(cli: Cli) -> None:
    cli("limit", "orders", "--rate", "100/1m")
    cli("pause", "orders")
    cli("resume", "orders")
    cli("schedule", "put", "orders", "tidy", "--every", "1h")
    for verb in ("list", "show", "pause", "resume", "delete"):
        cli("schedule", verb, *(["orders", "tidy"] if verb != "list" else []))
    assert cli("migrate", "orders", "--to", "moved", "--partitions", "3")[-1]["moved"] == 1
    assert [row["topic"] for row in cli("top", "moved")] == ["moved"]
    assert all(len(line) <= 80 for line in cli.shown("top", "--once").splitlines())
    assert cli("workers") == []
    server, *topics = cli("doctor")
    assert {row["topic"]: row["ok"] for row in topics} == {"orders": True, "moved": True}
    assert all(node["version"].startswith(("Valkey 9", "Redis 7")) for node in server["nodes"])
    cli("check", "moved")
    cli("purge", "moved")
    [made] = cli("token", "create", "--scope", "admin")
    assert [row["id"] for row in cli("token", "list")] == [made["id"]]
    cli("token", "revoke", made["id"])


def shared_by_hand(cli: Cli) -> None:
    name = cli.namespace
    java = ("--codec", "string")
    cli("delayed-queue", "offer", name, '"tea"', *java)
    cli("delayed-queue", "offer", name, '"jam"', "--delay", "1h", *java)
    assert cli("delayed-queue", "move", name)[0]["moved"] == 1
    assert [row["value"] for row in cli("delayed-queue", "list", name, *java)] == ["jam"]
    assert cli("delayed-queue", "size", name)[0]["ready"] == 1
    assert cli("move-to-topic", name, "taken over", *java)[0]["moved"] == 1
    cli("map-cache", "put", name + " map", "tea", '"green"', "--ttl", "1h", *java)
    assert cli("map-cache", "get", name + " map", "tea", *java)[0]["value"] == "green"
    for verb in ("list", "size", "evict"):
        assert len(cli("map-cache", verb, name + " map")) == 1
    cli("map-cache", "remove", name + " map", "tea", *java)
    cli("map-cache", "clear", name + " map")
    for layout in ("tarry", "article"):
        cli("guarded-queue", "push", name, '"egg"', "--layout", layout)
        assert cli("guarded-queue", "poll", name, "--layout", layout, "--wait", "10s")[0]["value"] == "egg"
        assert cli("guarded-queue", "stats", name, "--layout", layout)[0]["size"] == 0
        cli("guarded-queue", "clear", name, "--layout", layout)
    with tarry.Client(cli.url, namespace=name) as client:
        grant = client.lock(name + " lock", lease=60).acquire()
        assert grant is not None
        assert name + " lock" in {row["lock"] for row in cli("lock", "list")}
        assert cli("lock", "show", name + " lock")[0]["token"] == grant.token
        assert cli("lock", "force-release", name + " lock")[0]["released"]


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def process(folder: Path, *words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    log = folder / "log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "tarry", *words],
            cwd=folder, env={**os.environ, "PYTHONUNBUFFERED": "1", **environment}, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        yield running, log
    finally:
        running.kill()
        running.wait()


APP = """
import tarry
worker = tarry.Worker(concurrency=5)

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


def test_a_worker_from_the_url(url: str, namespace: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    words = ("worker", "app:worker", "--processes", "2", "--namespace", namespace)
    with (
        tarry.Client(url, namespace=namespace) as client,
        process(tmp_path, *words, TARRY_URL=url) as (running, log),
    ):
        client.topic("orders").add_many(range(20), delay="10ms")
        until(lambda: log.read_text().count("closed ") == 20)
        until(lambda: "beat" in log.read_text())
        assert len(until(lambda: len(client.workers()) == 2 and client.workers())) == 2
        [schedule] = client.schedules.list()
        assert (schedule.topic, schedule.from_code) == ("beats", True)
        running.send_signal(signal.SIGTERM)
        assert running.wait(WAIT_S) == 0, log.read_text()
        assert client.workers() == []
        assert client.topic("orders").check().ok


def test_a_service_from_the_url(url: str, namespace: str, tmp_path: Path) -> None:
    """Its API, its dashboard, its metrics; by a token."""
    cli = Cli(url, namespace)
    [token] = cli("token", "create", "--scope", "admin", "--scope", "produce", "--scope", "consume")
    words = ("serve", "--url", url, "--port", "0", "--namespace", namespace, "--queue", f"{namespace} queue")
    with process(tmp_path, *words) as (running, log):
        base = until(lambda: _address(log.read_text()))
        with (
            tarry.HTTPClient(base, namespace=namespace, token=token["token"]) as client,
            httpx.Client(base_url=base, headers={"authorization": f"Bearer {token['token']}"}, timeout=20) as http,
            tarry.Client(url, namespace=namespace) as inside,
        ):
            orders = client.topic("orders")
            orders.add({"order": 7}, id="7")
            job = orders.pop(wait=WAIT_S)
            assert job is not None
            with job:
                assert job.body == {"order": 7}
            assert http.get("/readyz").json() == {"status": "ok"}
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
        assert running.wait(WAIT_S) == 0, log.read_text()


@pytest.mark.parametrize("face", ["sync", "async"])
def test_every_verb_of_a_topic_over_http(served: Any, url: str, namespace: str, face: str) -> None:
    served.call(served.door.clients.put, namespace, tarry.AsyncClient(url, namespace=namespace))
    try:
        world = World(face, url, namespace)
        kind: Any = tarry.HTTPClient if face == "sync" else tarry.AsyncHTTPClient
        world.through(kind(served.url, namespace=namespace))
        perform(world.tell(jobs.topics))
    finally:
        served.run(served.door.clients.drop(namespace))


@pytest.mark.otherserver
@pytest.mark.slow
def test_the_demo_on_a_cluster(constellation: Callable[[str], Any], tmp_path: Path) -> None:
    words = ("demo", "--jobs", "60", "--seconds", "2", "--json", "--url", constellation("cluster of valkey").url)
    with process(tmp_path, *words) as (running, log):
        assert running.wait(60) == 0, log.read_text()
        assert '"ok":true' in log.read_text()


def _address(said: str) -> str:
    words = said.partition("service at ")[2].split()
    return words[0] if words else ""


def test_users_tests_live_through_time(url: str, namespace: str) -> None:
    """``tarry.testing`` on a server that was started for tests, whatever its kind."""
    clock = TestClock(url, namespace)
    worker = tarry.Worker(namespace=namespace)
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
